"""The whole way, with a real Ray, a real MLflow store and real files: from a command to a verdict, through every kind
of interruption, with the same numbers in the end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from ray.cloudpickle import register_pickle_by_value
from torch import nn

from analysis.folder import locked
from analysis.records import Records
from model.corpus.text import Corpus
from model.hardware import native_bf16
from model.inspect import main as inspect
from model.kept import read
from model.parts.feedforward import GELUFeedForward
from model.recipe import Member
from model.seeding import Follow, Streams
from model.train import train
from sweeps.engine import launch
from sweeps.engine.grid import Grid
from sweeps.engine.plan import make_plan, whole
from sweeps.engine.study import Arm, Study

Give = Callable[..., tuple[int, str, str]]
TINY = Path(__file__).parent / "tiny.py"
NOT_WIDE = ({"narrow"}, {"wild"}, {"narrow", "wild"})  # which differ in learning rate alone, and so train together


def study_in(folder: Path) -> Path:
    """The folder of the only study under ``results``, whose name tells the text, and the arms when not all."""
    (found,) = (folder / "results").iterdir()
    return found


def rows(folder: Path) -> pd.DataFrame:
    return Records(study_in(folder)).runs()


def results_of(frame: pd.DataFrame) -> dict[tuple[str, int], float]:
    return {(arm, seed): loss for arm, seed, loss in zip(frame["arm"], frame["seed"], frame["val_loss"], strict=True)}


def children(folder: Path) -> dict[str, object]:
    """MLflow's children by run id; a run id twice is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's use of SQLAlchemy is not ours to judge
        from mlflow.tracking import MlflowClient

        client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(study_in(folder).name)
    assert experiment is not None
    found = [r for r in client.search_runs([experiment.experiment_id]) if "seedbed.run_id" in r.data.tags]
    by_id = {r.data.tags["seedbed.run_id"]: r for r in found}
    assert len(by_id) == len(found)
    return by_id


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, text: Path, environment: dict[str, str]) -> tuple[Path, str]:
    """A finished study of three arms and three seeds with their models, on a Ray of its own, and what it printed."""
    folder = tmp_path_factory.mktemp("swept")
    done = subprocess.run(
        [sys.executable, str(TINY), "--corpus", str(text), "--keep-models"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
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
    frame = Records(copy / "results" / "twin-letters-txt").runs()
    assert set(frame["arm"]) == {"thin", "wide", "wild"}
    assert set(frame["study"]) == {"twin-letters-txt"}


Start = Callable[..., subprocess.Popen[str]]
LONGER = ("--arms", "wide", "--steps", "300")


@pytest.fixture(scope="module")
def start(text: Path, environment: dict[str, str]) -> Start:
    """Start `LONGER` in a folder, in a process group of its own like a shell's job; states of cohorts are kept five
    times a second."""

    def start_in(folder: Path, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(TINY), "--corpus", str(text), *LONGER, *options],
            cwd=folder, env=environment | {"TINY_CHECKPOINT_SECONDS": "0.2"}, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start_in


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def recorded(folder: Path) -> int:
    """How many runs are recorded so far."""
    return sum(pq.read_metadata(part).num_rows for part in (folder / "results").glob("*/runs/*.parquet"))


def states(folder: Path) -> list[Path]:
    """The states of cohorts whose runs are not recorded."""
    found = sorted((folder / "results").glob("*/checkpoints/*.pt"))
    return [path for path in found if not (path.parent.parent / "runs" / f"{path.stem}.parquet").exists()]


MARK = 1e6


def mark(paths: list[Path]) -> None:
    """Add `MARK` seconds to the time that each state says its cohort has taken: what goes on from it will tell."""
    for path in paths:
        state = torch.load(path, weights_only=True)
        state["seconds"] += MARK
        torch.save(state, path)


def marks(folder: Path) -> dict[str, int]:
    """How many marks the records carry, by cohort."""
    frames = {part.stem: pd.read_parquet(part) for part in (study_in(folder) / "runs").iterdir()}
    return {name: round(frame["seconds"].sum() / MARK) for name, frame in frames.items()}


@pytest.fixture(scope="module")
def undisturbed(tiny: ModuleType, corpus: Corpus) -> dict[tuple[str, int], float]:
    """The losses of `LONGER` until it is decided, on two places, when nothing happens to it: trained here, without Ray,
    in the cohorts of its two looks."""
    study = tiny.study().with_arms(("wide",)).with_steps(300).until_decided(5)
    study = study.with_precision("bf16" if native_bf16("cpu") else "fp32")
    first = make_plan(study, corpus, [])
    second = whole(first, corpus).after(run.run_id for run in first.runs)
    losses = {}
    for cohort in first.cohorts(2, 2**30) + second.cohorts(2, 2**30):
        results = train([Member(run.recipe, run.seed) for run in cohort], corpus)
        losses |= {(run.arm, run.seed): r.val_loss for run, r in zip(cohort, results, strict=True)}
    return losses


def finish(folder: Path, give: Give, *options: str, runs: int) -> dict[tuple[str, int], float]:
    """Give the same command again: it trains what is missing, and MLflow then has each run once."""
    missing, kept = runs - recorded(folder), states(folder)
    code, out, err = give(*LONGER, *options)
    assert (code, err) == (0, ""), out
    assert f"{missing} of {runs} runs to train" in out
    assert ("Going on from a state that was kept: " in out) == bool(kept)
    assert len(children(folder)) == runs
    assert not (study_in(folder) / "checkpoints").exists()
    return results_of(rows(folder))


@pytest.mark.usefixtures("store")
def test_stopped_by_ctrl_c_and_given_again(
    tmp_path: Path, start: Start, give: Give, cluster: str, undisturbed: dict[tuple[str, int], float]
) -> None:
    process = start(tmp_path)
    wait_for(lambda: recorded(tmp_path) >= 1, process)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    done = recorded(tmp_path)
    assert 1 <= done < 6
    assert process.returncode == 130, out + err
    assert err == ""
    assert re.search(rf"Stopped after .*: {done} of 6 runs are recorded, and the same command trains the other", out)
    assert (study_in(tmp_path) / "report.html").is_file()
    assert (study_in(tmp_path) / "checkpoints").is_dir()
    found = finish(tmp_path, give, "--address", cluster, runs=6)
    assert found == pytest.approx({run: undisturbed[run] for run in found}, abs=1e-3)  # a Ray of more places, maybe
    assert len(found) == 6


@pytest.mark.usefixtures("store")
def test_a_lost_worker_and_then_a_lost_driver(
    tmp_path: Path, start: Start, give: Give, ray: tuple[str, int], undisturbed: dict[tuple[str, int], float]
) -> None:
    """Killed workers cost what their cohorts did since their last states, and so does a killed driver: both go on from
    there to the same numbers, and a killed driver leaves what was recorded. Here in a study until it is decided: the
    workers are lost before its first look, the driver after it."""
    options = ("--until-decided", "--max-seeds", "5", "--address", ray[0])
    process = start(tmp_path, *options)
    wait_for(lambda: len(states(tmp_path)) >= 2, process)
    assert recorded(tmp_path) == 0
    assert len(workers(ray[1])) >= 2
    for pid in workers(ray[1]):
        os.kill(pid, signal.SIGKILL)
    first = states(tmp_path)
    mark(first)
    wait_for(lambda: recorded(tmp_path) >= 6 and bool(states(tmp_path)), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until_gone(workers(ray[1]))
    assert 6 <= recorded(tmp_path) < 10
    second = states(tmp_path)
    assert second
    mark(second)
    assert finish(tmp_path, give, *options, runs=10) == undisturbed
    marked = [path.stem for path in (*first, *second)]
    assert marks(tmp_path) == {name: marked.count(name) for name in marks(tmp_path)}


def workers(pid: int) -> list[int]:
    """The processes below `pid` that train."""
    return [below for below in descendants(pid) if b"Trainable" in command(below)]


def wait_until_gone(processes: list[int]) -> None:
    """A worker whose driver was killed ends by itself."""
    end = time.monotonic() + 30
    while any(command(pid) for pid in processes):
        assert time.monotonic() < end
        time.sleep(0.05)


def descendants(pid: int) -> list[int]:
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, added = {pid}, True
    while added:
        more = {child for child, parent in parents.items() if parent in found} - found
        found, added = found | more, bool(more)
    return sorted(found - {pid})


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True)
class Broken(GELUFeedForward):
    def build(self, width: int) -> nn.Module:
        raise RuntimeError("no such kernel")


@pytest.mark.usefixtures("store")
def test_a_run_that_always_crashes_stops_no_other_but_the_next_look(
    tmp_path: Path, tiny: ModuleType, give: Give, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "RETRIES", 1)
    register_pickle_by_value(sys.modules[__name__])  # Ray's workers cannot import a test

    def crashing() -> Study:
        study: Study = tiny.study()
        narrow, wide, wild = study.arms
        model = replace(narrow.recipe.model, feedforward=Broken(8))
        broken = replace(wild, recipe=replace(narrow.recipe, model=model))
        return study.replace(arms=(narrow, wide, broken), varies=("model",))

    code, out, err = give("--until-decided", "--max-seeds", "5", "--address", cluster, study=crashing)
    assert (code, err) == (1, ""), out
    assert re.search(r"wild seeds? \d.* failed: RuntimeError: no such kernel", out)
    assert re.search(r"Finished with failures .*: 6 of 9 runs", out)
    assert sorted(rows(tmp_path)["arm"]) == ["narrow"] * 3 + ["wide"] * 3
    statuses = [r.info.status for r in children(tmp_path).values()]  # type: ignore[attr-defined]
    assert sorted(statuses) == ["FAILED"] * 3 + ["FINISHED"] * 6


# A grid, and seeds until it is decided: "stuck" hardly learns at any rate, "twin" is the baseline with other seeds.


@pytest.fixture(scope="module")
def looked(tiny: ModuleType) -> Callable[[], Study]:
    def make() -> Study:
        study: Study = tiny.study()
        recipe = study.arms[0].recipe
        stuck = replace(recipe, optimizer=replace(recipe.optimizer, eps=1.0))
        twin = replace(recipe, streams=Streams(Follow(1000), Follow(1000)))
        arms = (Arm("base", recipe, ""), Arm("stuck", stuck, ""), Arm("twin", twin, ""))
        grid = Grid("optimizer.learning_rate", (1e-4, 1e-2), seeds=3)
        return study.replace(arms=arms, baseline="base", varies=("optimizer.eps", "streams"), margin=1e-6, tune=grid)

    return make


LOOKED = ("--until-decided", "--max-seeds", "5")


@pytest.fixture(scope="module")
def decided(
    tmp_path_factory: pytest.TempPathFactory,
    empty_store: Path,
    give_in: Give,
    looked: Callable[[], Study],
    cluster: str,
) -> tuple[Path, str]:
    """The folder of a tuned study until it is decided, and what was printed."""
    folder = tmp_path_factory.mktemp("decided")
    shutil.copy(empty_store, folder / "mlflow.db")
    code, out, err = give_in(folder, *LOOKED, "--address", cluster, study=looked)
    assert (code, err) == (0, ""), out
    return folder, out


def stages(folder: Path) -> pd.DataFrame:
    records = Records(study_in(folder))
    return records.planned_runs(records.snapshot())


def test_a_decided_arm_gets_no_more_seeds(decided: tuple[Path, str]) -> None:
    frame = stages(decided[0])
    judged = frame[frame["stage"] == "judge"]
    assert {arm: list(own["seed"]) for arm, own in judged.groupby("arm")} == {
        "base": [0, 1, 2, 3, 4],
        "stuck": [0, 1, 2],
        "twin": [0, 1, 2, 3, 4],
    }
    out = decided[1]
    assert "tiny-letters-txt: 18 of 18 runs to train on the grid" in out
    assert "Look at 3 seeds: stuck worse; twin undecided and goes on." in out
    assert all(f"/{total} runs done" in out for total in (18, 27, 31))
    assert "All 31 runs are recorded" in out
    told = json.loads((study_in(decided[0]) / "verdict.json").read_text())["comparisons"]
    assert [[look["seeds"] for look in one["looks"]] for one in told] == [[3], [3, 5]]


def test_arms_are_judged_at_the_points_that_were_selected_on_other_seeds(decided: tuple[Path, str]) -> None:
    frame, known = stages(decided[0]), children(decided[0])
    tried = frame[frame["stage"] == "tune"]
    assert set(tried["seed"]) == {1_000_000, 1_000_001, 1_000_002}
    best = tried.groupby(["arm", "point"])["val_loss"].mean().unstack().idxmin(axis=1).to_dict()
    assert best["base"] == best["twin"] == 1e-2
    for run in frame.itertuples():
        child = known[run.run_id].data  # type: ignore[attr-defined]
        point = run.point if run.stage == "tune" else best[run.arm]
        assert run.point == point
        assert child.params["optimizer.learning_rate"] == repr(point)
        assert (child.tags["seedbed.stage"], child.tags["seedbed.point"]) == (run.stage, f"{point:g}")
        assert child.tags["mlflow.runName"] == f"{run.arm} at {point:g} seed {run.seed}"
    snapshot = Records(study_in(decided[0])).snapshot()
    assert {arm["name"]: arm["selected"] for arm in snapshot["arms"]} == best
    assert "optimizer.learning_rate" not in snapshot["held_equal"]


def test_a_look_is_taken_again_from_the_records(
    decided: tuple[Path, str], tmp_path: Path, give: Give, looked: Callable[[], Study], cluster: str
) -> None:
    """Nothing is trained again, another number of looks is refused, and what is lost of the last round, as when a
    machine goes down in it, is asked for again with the same numbers."""
    shutil.copytree(decided[0], tmp_path, dirs_exist_ok=True)
    before = stages(tmp_path)
    code, out, err = give(*LOOKED, study=looked)
    assert (code, err) == (0, "")
    assert "runs to train" not in out
    for options, said in (
        (("--until-decided", "--max-seeds", "8"), "--max-seeds 5, and now it is --until-decided --max-seeds 8"),
        (("--seeds", "5"), "--max-seeds 5, and now it is 5 seeds"),
    ):
        code, _, err = give(*options, study=looked)
        assert code == 2
        assert said in err
    last = before[(before["stage"] == "judge") & (before["seed"] >= 3)]["run_id"]
    parts = [
        part for part in (study_in(tmp_path) / "runs").iterdir() if set(pd.read_parquet(part)["run_id"]) & set(last)
    ]
    lost = len(pd.read_parquet(parts[0]))
    parts[0].unlink()
    code, out, err = give(*LOOKED, "--address", cluster, study=looked)
    assert (code, err) == (0, "")
    assert f"{lost} of 31 runs to train, up to the look at 5 seeds," in out
    assert "Look at 3 seeds" not in out
    assert list(stages(tmp_path)["run_id"]) == list(before["run_id"])
    assert list(stages(tmp_path)["val_loss"]) == pytest.approx(list(before["val_loss"]), abs=1e-4)
