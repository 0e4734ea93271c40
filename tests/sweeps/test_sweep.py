"""The whole way, with a real Ray, a real MLflow store and real files: from a command to a verdict, through every kind
of interruption, with the same numbers in the end."""

import contextlib
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
from pathlib import Path
from types import ModuleType

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from analysis.folder import locked
from analysis.records import Records
from sweeps.engine.study import Study

Run = Callable[..., subprocess.CompletedProcess[str]]
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
    """A finished study of three arms and three seeds, on a Ray of its own, and what it printed."""
    folder = tmp_path_factory.mktemp("swept")
    done = subprocess.run(
        [sys.executable, str(TINY), "--corpus", str(text)],
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


def test_the_same_command_runs_nothing(copy: Path, give: Give) -> None:
    before = {p: p.stat().st_mtime_ns for p in (copy / "results").rglob("*.parquet")}
    code, out, err = give()
    assert (code, err) == (0, "")
    assert "runs to train" not in out
    assert {p: p.stat().st_mtime_ns for p in (copy / "results").rglob("*.parquet")} == before
    assert len(children(copy)) == 9


def test_more_seeds_run_only_the_new_ones(copy: Path, run: Run, cluster: str) -> None:
    before = results_of(rows(copy))
    done = run("--seeds", "4", "--address", cluster)
    assert done.returncode == 0, done.stderr
    assert "3 of 12 runs to train" in done.stdout
    after = results_of(rows(copy))
    assert set(after) - set(before) == {("narrow", 3), ("wide", 3), ("wild", 3)}
    assert after.items() >= {k: v for k, v in before.items() if v == v}.items()  # NaN is not itself


def test_a_cut_part_is_named_and_mended(copy: Path, run: Run, cluster: str) -> None:
    frame = rows(copy).set_index("run_id")
    part = min((study_in(copy) / "runs").iterdir())
    lost = list(pd.read_parquet(part)["run_id"])
    part.write_bytes(part.read_bytes()[:-30])
    done = run()
    assert done.returncode == 2
    assert part.name in done.stderr
    assert "Delete it and give the same command again" in done.stderr
    part.unlink()
    done = run("--address", cluster)
    assert done.returncode == 0, done.stderr
    assert f"{len(lost)} of 9 runs to train" in done.stdout
    again = rows(copy).set_index("run_id")
    assert str(dict(again.loc[lost, "val_loss"])) == str(dict(frame.loc[lost, "val_loss"]))
    assert len(children(copy)) == 9


def test_curves_that_are_lost_are_made_again(copy: Path, run: Run, cluster: str) -> None:
    before = results_of(rows(copy))
    lost = min((study_in(copy) / "curves").iterdir())
    runs = len(pd.read_parquet(study_in(copy) / "runs" / lost.name))
    lost.unlink()
    done = run("--address", cluster)
    assert done.returncode == 0, done.stderr
    assert f"{runs} of 9 runs to train" in done.stdout
    frame = rows(copy)
    assert str(results_of(frame)) == str(before)
    assert set(Records(study_in(copy)).curves(list(frame["run_id"]))["run_id"]) == set(frame["run_id"])


def test_records_that_cannot_be_written_end_the_sweep_plainly(copy: Path, run: Run, cluster: str) -> None:
    """As on a full disk: a sentence, exit code 2, and what was recorded stays."""
    before = rows(copy)
    scratch = study_in(copy) / "curves"
    scratch.rename(copy / "kept")
    scratch.symlink_to("/proc")  # where nothing can be made, but what is asked for can be looked up
    for part in (copy / "kept").iterdir():
        assert not (scratch / part.name).exists()
    done = run("--address", cluster)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "cannot be written" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
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


@pytest.fixture(scope="module")
def start(text: Path, environment: dict[str, str]) -> Start:
    """Start two arms of a longer study in a folder, in a process group of its own like a shell's job; states of cohorts
    are kept five times a second."""

    def start_in(folder: Path, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(TINY), "--corpus", str(text), "--arms", "wide", *options],
            cwd=folder, env=environment | {"TINY_STEPS": "300", "TINY_CHECKPOINT_SECONDS": "0.2"}, text=True,
            start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start_in


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60) -> None:
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
def undisturbed(tmp_path_factory: pytest.TempPathFactory, start: Start, cluster: str) -> dict[tuple[str, int], float]:
    """The losses of the longer study when nothing happens to it, trained on a Ray that was already running."""
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder, "--address", cluster)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return results_of(rows(folder))


def finish(folder: Path, start: Start, cluster: str) -> dict[tuple[str, int], float]:
    """Give the same command again: it trains what is missing, and MLflow then has each run once."""
    missing, kept = 6 - recorded(folder), states(folder)
    process = start(folder, "--address", cluster)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert f"{missing} of 6 runs to train" in out
    assert ("Going on from a state that was kept: " in out) == bool(kept)
    assert len(children(folder)) == 6
    assert not (study_in(folder) / "checkpoints").exists()
    return results_of(rows(folder))


def test_stopped_by_ctrl_c_and_given_again(
    tmp_path: Path, start: Start, cluster: str, undisturbed: dict[tuple[str, int], float]
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
    assert finish(tmp_path, start, cluster) == undisturbed


def test_a_lost_worker_and_then_a_lost_driver(
    tmp_path: Path, start: Start, cluster: str, undisturbed: dict[tuple[str, int], float]
) -> None:
    """Killed workers cost what their cohorts did since their last states, and so does a killed driver: both go on from
    there to the same numbers, and a killed driver leaves what was recorded."""
    process = start(tmp_path)
    wait_for(lambda: len(states(tmp_path)) >= 2, process)
    workers = [pid for pid in descendants(process.pid) if b"Trainable" in command(pid)]
    assert len(workers) >= 2
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    first = states(tmp_path)
    mark(first)
    wait_for(lambda: recorded(tmp_path) >= 1 and bool(states(tmp_path)), process)
    everything = descendants(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    end_all(everything)
    assert 1 <= recorded(tmp_path) < 6
    second = states(tmp_path)
    assert second
    mark(second)
    assert finish(tmp_path, start, cluster) == undisturbed
    marked = [path.stem for path in (*first, *second)]
    assert marks(tmp_path) == {name: marked.count(name) for name in marks(tmp_path)}


def end_all(processes: list[int]) -> None:
    """End what a killed driver leaves of its Ray, as a machine that goes down does, and see that it is gone."""
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
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


def test_a_run_that_always_crashes_stops_no_other(tmp_path: Path, run: Run, cluster: str) -> None:
    study = tmp_path / "crashing.py"
    source = TINY.read_text()
    part = (
        "@dataclass(frozen=True)\n"
        "class Broken(GELUFeedForward):\n"
        "    def build(self, width):\n"
        "        raise RuntimeError('no such kernel')\n\n\n"
    )
    source = source.replace("def recipe(", part + "def recipe(", 1).replace(
        "import os\n", "import os\nfrom dataclasses import dataclass\n"
    )
    changed = "replace(recipe(8), model=replace(recipe(8).model, feedforward=Broken(8)))"
    source = source.replace("replace(recipe(8), optimizer=AdamW(learning_rate=1e30, warmup=3))", changed)
    study.write_text(
        source.replace('varies=("model.feedforward.d_ff", "optimizer.learning_rate")', 'varies=("model",)')
    )
    done = run("--address", cluster, "--seeds", "1", study=study)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "wild seed 0 failed: RuntimeError: no such kernel" in done.stdout
    assert "Finished with failures" in done.stdout
    assert sorted(rows(tmp_path)["arm"]) == ["narrow", "wide"]
    assert {r.info.status for r in children(tmp_path).values()} == {"FINISHED", "FAILED"}  # type: ignore[attr-defined]


def test_an_unreachable_tracking_server_loses_nothing(tmp_path: Path, run: Run, cluster: str) -> None:
    uri = "http://127.0.0.1:9"
    done = run("--address", cluster, "--arms", "wide", "--seeds", "1", "--tracking-uri", uri)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Warning: MLflow at http://127.0.0.1:9 cannot be used") == 1
    assert len(rows(tmp_path)) == 2
    done = run("--arms", "wide", "--seeds", "1")
    assert done.returncode == 0, done.stderr
    assert len(children(tmp_path)) == 2
