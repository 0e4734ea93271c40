"""The whole way, with a real Ray, a real MLflow store and real files: from a command to a verdict, and what the same
command or another one makes of what is recorded."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from analysis.folder import locked
from analysis.records import Records
from model.inspect import main as inspect
from model.kept import read
from sweeps.engine.study import Study
from tests.sweeps.folders import children, results_of, rows, study_in

Give = Callable[..., tuple[int, str, str]]
TINY = Path(__file__).parent / "tiny.py"
NOT_WIDE = ({"narrow"}, {"wild"}, {"narrow", "wild"})  # which differ in learning rate alone, and so train together


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, text: Path, environment: dict[str, str]) -> tuple[Path, str]:
    """A finished study of three arms and three seeds with their models, on a Ray of its own, and what it printed."""
    folder = tmp_path_factory.mktemp("swept")
    done = subprocess.run(
        [sys.executable, str(TINY), "--corpus", str(text), "--keep-models"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder, done.stdout


@pytest.fixture
def copy(swept: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of the finished study in `tmp_path`, to be changed."""
    shutil.copytree(swept[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_every_run_has_one_row_and_its_curves(swept: tuple[Path, str]) -> None:
    frame = rows(swept[0])
    assert sorted(zip(frame["arm"], frame["seed"], strict=True)) == [
        (arm, seed) for arm in ("narrow", "wide", "wild") for seed in (0, 1, 2)
    ]
    assert set(frame["status"][frame["arm"] != "wild"]) == {"completed"}
    assert set(frame["status"][frame["arm"] == "wild"]) == {"diverged"}
    assert (frame["seconds"] > 0).all()
    assert frame["precision"].nunique() == 1
    parts = [pd.read_parquet(part) for part in (study_in(swept[0]) / "runs").iterdir()]
    assert all((part["cohort"] == len(part)).all() for part in parts)
    assert {frozenset(part["arm"]) for part in parts} <= {frozenset({"wide"}), *map(frozenset, NOT_WIDE)}
    assert frame["tokens"][frame["arm"] == "wide"].eq(30 * 8 * 8).all()
    curves = Records(study_in(swept[0])).curves(list(frame["run_id"]))
    assert set(curves["run_id"]) == set(frame["run_id"])
    last = curves[(curves["name"] == "val_loss") & (curves["step"] == 30)].set_index("run_id")["value"]
    completed = frame[frame["status"] == "completed"].set_index("run_id")["val_loss"]
    assert last.to_dict() == completed.to_dict()


def test_the_lineage_holds_every_run(swept: tuple[Path, str]) -> None:
    frame, known = rows(swept[0]), children(swept[0])
    assert set(known) == set(frame["run_id"])
    for row in frame.itertuples():
        tags = known[row.run_id].data.tags  # type: ignore[attr-defined]
        assert (tags["seedbed.arm"], tags["seedbed.seed"]) == (row.arm, str(row.seed))
        assert tags["seedbed.corpus_sha256"] == row.corpus_sha256


def test_what_a_person_is_told(swept: tuple[Path, str]) -> None:
    folder, printed = swept
    precision = rows(folder)["precision"][0]
    assert f"9 of 9 runs to train in {precision}. Ctrl-C stops" in printed
    assert re.search(r"narrow seeds? 0.*: \d\.\d{4}.* \(\d+ s( a run)?\)\. \d/9 runs done", printed)
    assert re.search(r"wild seeds? \d.*: diverged at step \d+", printed)
    assert "All 9 runs are recorded. From start to verdict:" in printed
    assert "wide" in printed.split("verdict")[1]
    page = (study_in(folder) / "report.html").read_text()
    assert all(run_id in page for run_id in rows(folder)["run_id"])
    assert re.search(rf"<code>precision</code></th><td class=\"text\">{precision}</td>", page)  # held equal
    assert not (study_in(folder) / "checkpoints").exists()
    assert not list(folder.glob("seedbed-*"))
    assert sorted(p.name for p in folder.iterdir()) == ["mlartifacts", "mlflow.db", "results"]


def test_models_are_kept_of_all_that_completed(swept: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, printed = swept
    frame = rows(folder)
    assert "Models are kept: 9 runs, about 0 MB." in printed
    completed = frame[frame["status"] == "completed"]
    assert {path.stem for path in (study_in(folder) / "models").iterdir()} == set(completed["run_id"])
    run = completed.iloc[0]
    model = read(study_in(folder) / "models" / f"{run['run_id']}.pt")
    assert (model.run_id, model.arm, model.seed) == (run["run_id"], run["arm"], run["seed"])
    assert inspect([run["run_id"], "--results", str(folder / "results")]) == 0
    assert float(re.search(r"loss (\d\.\d+)", capsys.readouterr().out)[1]) == pytest.approx(run["val_loss"], abs=2e-3)


def test_what_was_recorded_without_its_model_is_said(copy: Path, give: Give) -> None:
    kept = sorted((study_in(copy) / "models").iterdir())
    for path in kept[:2]:
        path.unlink()
    for options in ((), ("--plan",)):
        code, out, err = give("--keep-models", *options)
        assert (code, err) == (0, "")
        assert "No model is kept of 2 runs recorded before: what is recorded is not trained again." in out
        assert "Models are kept" not in out
    code, out, _ = give("--plan", "--keep-models", "--results", "elsewhere")
    assert (code, "Models are kept: 9 runs" in out, "No model" in out) == (0, True, False)


def test_the_same_command_runs_nothing(copy: Path, give: Give) -> None:
    before = {p: p.stat().st_mtime_ns for p in (copy / "results").rglob("*.parquet")}
    code, out, err = give()
    assert (code, err) == (0, "")
    assert "runs to train" not in out
    assert {p: p.stat().st_mtime_ns for p in (copy / "results").rglob("*.parquet")} == before
    assert len(children(copy)) == 9


def test_more_seeds_run_only_the_new_ones(copy: Path, give: Give, cluster: str) -> None:
    """After a verdict on three seeds, which the verdict on four must allow for; and while MLflow cannot be reached,
    which loses nothing."""
    before = results_of(rows(copy))
    code, out, err = give("--seeds", "4", "--address", cluster, "--tracking-uri", "http://127.0.0.1:9")
    assert (code, err) == (0, ""), out
    assert "3 of 12 runs to train" in out
    assert out.count("Warning: MLflow at http://127.0.0.1:9 cannot be used") == 1
    assert "Seeds were added after a verdict had been seen" in out
    assert Records(study_in(copy)).snapshot()["design"] == {"kind": "open", "looks": [3, 4]}
    after = results_of(rows(copy))
    assert set(after) - set(before) == {("narrow", 3), ("wide", 3), ("wild", 3)}
    assert after.items() >= {k: v for k, v in before.items() if v == v}.items()  # NaN is not itself
    assert len(children(copy)) == 9
    code, out, err = give("--seeds", "4")
    assert (code, err) == (0, ""), out
    assert len(children(copy)) == 12


def test_what_is_cut_or_lost_is_named_and_made_again(copy: Path, give: Give, cluster: str) -> None:
    """A part of the rows that was cut short, and the curves of another that are gone."""
    frame = rows(copy).set_index("run_id")
    part, other, *_ = sorted((study_in(copy) / "runs").iterdir())
    lost = [*pd.read_parquet(part)["run_id"], *pd.read_parquet(other)["run_id"]]
    part.write_bytes(part.read_bytes()[:-30])
    code, _, err = give()
    assert code == 2
    assert part.name in err
    assert "Delete it and give the same command again" in err
    part.unlink()
    (study_in(copy) / "curves" / other.name).unlink()
    code, out, err = give("--address", cluster)
    assert (code, err) == (0, ""), out
    assert f"{len(lost)} of 9 runs to train" in out
    again = rows(copy).set_index("run_id")
    assert str(dict(again["val_loss"])) == str(dict(frame["val_loss"]))
    assert set(Records(study_in(copy)).curves(lost)["run_id"]) == set(lost)
    assert len(children(copy)) == 9


def test_records_that_cannot_be_written_end_the_sweep_plainly(copy: Path, give: Give, cluster: str) -> None:
    """As on a full disk: a sentence, exit code 2, and what was recorded stays."""
    before = rows(copy)
    scratch = study_in(copy) / "curves"
    scratch.rename(copy / "kept")
    scratch.symlink_to("/proc")  # where nothing can be made, but what is asked for can be looked up
    for part in (copy / "kept").iterdir():
        assert not (scratch / part.name).exists()
    code, out, err = give("--address", cluster)
    assert code == 2, out + err
    assert "cannot be written" in err
    assert len(err.strip().splitlines()) == 1
    scratch.unlink()
    (copy / "kept").rename(scratch)
    assert rows(copy).equals(before)


Change = Callable[..., Callable[[], Study]]


@pytest.fixture
def changed(tmp_path: Path, load: Callable[[Path], ModuleType]) -> Change:
    """The tiny study with texts of its file replaced."""

    def change(*changes: tuple[str, str]) -> Callable[[], Study]:
        source = TINY.read_text()
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        path = tmp_path / "changed.py"
        path.write_text(source)
        study: Callable[[], Study] = load(path).study
        return study

    return change


def test_a_renamed_arm_keeps_its_runs(copy: Path, give: Give, changed: Change) -> None:
    """A run is known by its recipe, so its numbers follow the recipe whatever the arm is called, even names swapped."""
    before = results_of(rows(copy))
    code, out, err = give(study=changed(('"narrow"', '"x"'), ('"wide"', '"narrow"'), ('"x"', '"wide"')))
    assert (code, err) == (0, "")
    assert "runs to train" not in out
    verdict = json.loads((study_in(copy) / "verdict.json").read_text())["comparisons"][0]
    assert (verdict["arm"], verdict["baseline"]) == ("narrow", "wide")
    difference = sum(before["wide", seed] - before["narrow", seed] for seed in range(3)) / 3
    assert verdict["difference"] == pytest.approx(difference)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("margin=0.05", "margin=0.5"), "a margin of 0.05, and now it is 0.5"),
        (('baseline="narrow"', 'baseline="wide"'), "the baseline narrow, and now it is wide"),
    ],
)
def test_a_question_changed_after_the_data_is_refused(
    copy: Path, give: Give, changed: Change, change: tuple[str, str], said: str
) -> None:
    before = (study_in(copy) / "study.json").read_bytes()
    code, _, err = give(study=changed(change))
    assert code == 2
    assert said in err
    assert (study_in(copy) / "study.json").read_bytes() == before


@pytest.mark.parametrize("content", [None, '{"study": "ti'], ids=["lost", "damaged"])
def test_a_lost_study_file_is_written_again(copy: Path, give: Give, content: str | None) -> None:
    path = study_in(copy) / "study.json"
    path.unlink() if content is None else path.write_text(content)
    code, out, err = give()
    assert (code, err) == (0, "")
    assert "runs to train" not in out
    assert len(json.loads(path.read_text())["runs"]) == 9


def test_one_process_at_a_time(copy: Path, give: Give) -> None:
    with locked(study_in(copy)):
        code, _, err = give()
    assert code == 2
    assert "Another process runs a study" in err


def test_fewer_arms_leave_the_whole_study_alone(copy: Path, give: Give) -> None:
    whole = study_in(copy)
    before = (whole / "report.html").read_bytes()
    code, out, err = give("--arms", "wide")
    assert (code, err) == (0, "")
    assert "6 runs were recorded by another study" in out
    assert (whole / "report.html").read_bytes() == before
    assert sorted(p.name for p in (copy / "results").iterdir()) == ["tiny-letters-txt", "tiny-wide-letters-txt"]


def test_another_study_takes_over_what_is_recorded(copy: Path, give: Give, changed: Change) -> None:
    twin = changed(
        ('name="tiny"', 'name="twin"'), ('Arm("narrow"', 'Arm("thin"'), ('baseline="narrow"', 'baseline="thin"')
    )
    assert "All 9 runs are recorded" in give("--plan", study=twin)[1]
    code, out, err = give(study=twin)
    assert (code, err) == (0, "")
    assert "9 runs were recorded by another study and are taken over" in out
    folder = copy / "results" / "twin-letters-txt"
    frame = Records(folder).runs()
    assert set(frame["arm"]) == {"thin", "wide", "wild"}
    assert set(frame["study"]) == {"tiny-letters-txt"}
    page = (folder / "report.html").read_text()
    assert "9 of the runs were recorded by the study tiny-letters-txt before this question was asked" in page
    assert "fixed before any run" not in page
    first = Records(folder).snapshot()
    assert give(study=twin)[0] == 0
    again = Records(folder).snapshot()
    assert len(first["taken_over"]) == 9
    assert (first["asked"], first["taken_over"]) == (again["asked"], again["taken_over"])
