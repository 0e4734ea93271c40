"""The whole way, with a real Ray, a real MLflow store and real files: from a command to a verdict, through every kind
of interruption, with the same numbers in the end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from mlflow.tracking import MlflowClient

from analysis.records import Records

Run = Callable[..., subprocess.CompletedProcess[str]]
TINY = Path(__file__).parent / "tiny.py"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}


def rows(folder: Path) -> pd.DataFrame:
    return Records(folder / "results" / "tiny").runs()


def results_of(frame: pd.DataFrame) -> dict[tuple[str, int], float]:
    return {(arm, seed): loss for arm, seed, loss in zip(frame["arm"], frame["seed"], frame["val_loss"], strict=True)}


def children(folder: Path) -> dict[str, object]:
    """MLflow's children by run id; a run id twice is an error."""
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    found = [r for r in client.search_runs([experiment.experiment_id]) if "seedbed.run_id" in r.data.tags]
    by_id = {r.data.tags["seedbed.run_id"]: r for r in found}
    assert len(by_id) == len(found)
    return by_id


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, text: Path) -> tuple[Path, str]:
    """A finished study of three arms and three seeds, on a Ray of its own, and what it printed."""
    folder = tmp_path_factory.mktemp("swept")
    done = subprocess.run(
        [sys.executable, str(TINY), "--corpus", str(text)],
        cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder, done.stdout


@pytest.fixture
def copy(swept: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of the finished study in `tmp_path`, to be changed."""
    shutil.copytree(swept[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a running Ray of two CPUs, ended by its own process alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ray = Path(sys.executable).with_name("ray")
    options = ["--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=2"]
    process = subprocess.Popen(
        [str(ray), "start", *options, "--include-dashboard=false", "--disable-usage-stats"],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "Ray runtime started" in line:
            break
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait(timeout=30)
    process.stdout.close()


def test_every_run_has_one_row_and_its_curves(swept: tuple[Path, str]) -> None:
    frame = rows(swept[0])
    assert sorted(zip(frame["arm"], frame["seed"], strict=True)) == [
        (arm, seed) for arm in ("narrow", "wide", "wild") for seed in (0, 1, 2)
    ]
    assert set(frame["status"][frame["arm"] != "wild"]) == {"completed"}
    assert set(frame["status"][frame["arm"] == "wild"]) == {"diverged"}
    assert (frame["seconds"] > 0).all()
    assert frame["tokens"][frame["arm"] == "wide"].eq(30 * 8 * 8).all()
    curves = Records(swept[0] / "results" / "tiny").curves(list(frame["run_id"]))
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


def test_what_a_person_is_told(swept: tuple[Path, str], verdicts: object) -> None:
    folder, printed = swept
    assert re.search(r"narrow seed 0: \d\.\d{4} \(\d+ s\)\. \d/9 runs done", printed)
    assert re.search(r"wild seed \d: diverged at step \d+", printed)
    assert "All 9 runs are recorded. From start to verdict:" in printed
    assert "wide" in printed.split("verdict")[1]
    page = (folder / "results" / "tiny" / "report.html").read_text()
    assert all(run_id in page for run_id in rows(folder)["run_id"])
    assert not list(folder.glob("seedbed-*"))
    assert sorted(p.name for p in folder.iterdir()) == ["mlartifacts", "mlflow.db", "results"]


def test_the_same_command_runs_nothing(copy: Path, run: Run) -> None:
    before = {p: p.stat().st_mtime_ns for p in (copy / "results").rglob("*.parquet")}
    done = run()
    assert done.returncode == 0, done.stderr
    assert "runs to train" not in done.stdout
    assert {p: p.stat().st_mtime_ns for p in (copy / "results").rglob("*.parquet")} == before
    assert len(children(copy)) == 9


def test_more_seeds_run_only_the_new_ones(copy: Path, run: Run) -> None:
    before = results_of(rows(copy))
    done = run("--seeds", "4", "--arms", "wide")
    assert done.returncode == 0, done.stderr
    assert "2 of 8 runs to train" in done.stdout
    after = results_of(rows(copy))
    assert set(after) - set(before) == {("narrow", 3), ("wide", 3)}
    assert after.items() >= {k: v for k, v in before.items() if v == v}.items()  # NaN is not itself


def test_a_cut_part_is_named_and_mended(copy: Path, run: Run) -> None:
    frame = rows(copy).set_index("run_id")
    part = min((copy / "results" / "tiny" / "runs").iterdir())
    lost = pd.read_parquet(part)["run_id"][0]
    part.write_bytes(part.read_bytes()[:-30])
    done = run()
    assert done.returncode == 2
    assert part.name in done.stderr
    assert "Delete it and give the same command again" in done.stderr
    part.unlink()
    done = run()
    assert done.returncode == 0, done.stderr
    assert "1 of 9 runs to train" in done.stdout
    again = rows(copy).set_index("run_id").loc[lost, "val_loss"]
    assert again == frame.loc[lost, "val_loss"] or frame.loc[lost, "status"] == "diverged"
    assert len(children(copy)) == 9


def test_another_study_takes_over_what_is_recorded(copy: Path, run: Run, tmp_path: Path) -> None:
    study = tmp_path / "twin.py"
    source = TINY.read_text().replace('name="tiny"', 'name="twin"').replace('Arm("narrow"', 'Arm("thin"')
    study.write_text(source.replace('baseline="narrow"', 'baseline="thin"'))
    done = run(study=study)
    assert done.returncode == 0, done.stderr
    assert "9 runs were recorded by another study and are taken over" in done.stdout
    assert "runs to train" not in done.stdout
    frame = Records(copy / "results" / "twin").runs()
    assert set(frame["arm"]) == {"thin", "wide", "wild"}
    assert set(frame["study"]) == {"twin"}


def start(folder: Path, text: Path, *options: str, steps: int) -> subprocess.Popen[str]:
    """The tiny study in the background, in a process group of its own like a shell's job."""
    return subprocess.Popen(
        [sys.executable, str(TINY), "--corpus", str(text), "--arms", "wide", *options],
        cwd=folder, env=ENVIRONMENT | {"TINY_STEPS": str(steps)}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def recorded(folder: Path) -> int:
    return len(list((folder / "results" / "tiny" / "runs").glob("*.parquet")))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, text: Path, cluster: str) -> dict[tuple[str, int], float]:
    """The losses of a longer study that nothing happened to, trained on a Ray that was already running."""
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder, text, "--address", cluster, steps=1500)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    return results_of(rows(folder))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_stopped_and_given_again(
    how: signal.Signals, tmp_path: Path, text: Path, undisturbed: dict[tuple[str, int], float]
) -> None:
    process = start(tmp_path, text, steps=1500)
    wait_for(lambda: recorded(tmp_path) >= 1, process)
    os.killpg(process.pid, how)
    out, err = process.communicate(timeout=60)
    done = recorded(tmp_path)
    assert 1 <= done < 6
    if how == signal.SIGINT:
        assert process.returncode == 130, out + err
        assert err == ""
        assert re.search(
            rf"Stopped after .*: {done} of 6 runs are recorded, and the same command trains the other", out
        )
        assert (tmp_path / "results" / "tiny" / "report.html").is_file()
    again = start(tmp_path, text, steps=1500)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0, out + err
    assert f"{6 - done} of 6 runs to train" in out
    assert results_of(rows(tmp_path)) == undisturbed
    assert len(children(tmp_path)) == 6


def test_a_lost_worker_costs_only_its_cohort(
    tmp_path: Path, text: Path, undisturbed: dict[tuple[str, int], float]
) -> None:
    process = start(tmp_path, text, steps=1500)
    wait_for(lambda: recorded(tmp_path) >= 1, process)
    workers = [
        pid for pid in descendants(process.pid) if b"CohortTrainable" in command(pid) or b"Trainable" in command(pid)
    ]
    assert workers
    os.kill(workers[0], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert results_of(rows(tmp_path)) == undisturbed


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
