"""The MLflow lineage against real stores: SQLite files, and `mlflow server` on loopback in its own process."""

import contextlib
import math
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from analysis.records import Records
from sweeps.engine import tracking
from sweeps.engine.lineage import Lineage
from sweeps.engine.source import CommitState

ROOT = Path(__file__).parents[2]
PLAN = [(f"{number:016x}", arm, seed) for number, (seed, arm) in enumerate((s, a) for s in (0, 1) for a in ("p", "q"))]
RECIPE = {f"model.part_{number}.width": str(number) for number in range(150)}  # more than one batch of MLflow's holds
SOURCE = CommitState("c" * 40, True, "--- a\n+++ b\n" + "+new\n" * 5000, ("notes.txt",))
NAMES = ("train_loss", "val_loss", "grad_norm", "learning_rate")


def row(number: int, **changes: Any) -> dict[str, Any]:
    run_id, arm, seed = PLAN[number]
    finished = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC) + timedelta(minutes=number)
    numbers = {"val_loss": 4.1 + number, "val_window_sd": 0.3, "last_batch_loss": 4.0, "initial_loss": 7.1}
    sizes = {"parameters": 689_920, "steps": 1200, "tokens": 2_457_600, "seconds": 90.5}
    origin = {"device": "cpu", "corpus_sha256": "5e" * 32, "recipe_version": 1, "versions": '{"torch": "2.13.0"}'}
    origin |= {"precision": "bf16", "cohort": 4}
    names = {"run_id": run_id, "study": "widths", "arm": arm, "seed": seed, "status": "completed", "diverged_at": None}
    return names | numbers | sizes | origin | {"commit": "c" * 40, "finished": finished} | changes


def curve(number: int, points: int = 300) -> list[dict[str, Any]]:
    run_id, arm, seed = PLAN[number]
    key = {"run_id": run_id, "arm": arm, "seed": seed}
    return [key | {"step": k, "name": n, "value": number + math.exp(-k / 300)} for n in NAMES for k in range(points)]


class Study:
    """One study's folder, and whatever was warned; `session` is what a process that starts it again would hold."""

    def __init__(self, folder: Path) -> None:
        self.records, self.warnings = Records(folder / "results" / "widths"), list[str]()
        arms = [{"name": "p"}, {"name": "q"}]
        judged = {"stage": "judge", "point": None}
        runs = [{"run_id": run_id, "arm": arm, "seed": seed} | judged for run_id, arm, seed in PLAN]
        told = {"question": "Which width?", "command": "python sweeps/widths.py", "metric": "val_loss", "margin": 0.02}
        corpus = {"name": "tang", "sha256": "5e" * 32}
        self.snapshot = {"study": "widths", "baseline": "p", "arms": arms, "runs": runs, "corpus": corpus} | told
        self.records.write_snapshot(self.snapshot)

    def session(self, uri: str) -> Lineage:
        recipes = {run_id: RECIPE | {"seed": str(seed)} for run_id, _, seed in PLAN}
        warn = self.warnings.append
        return Lineage(uri, self.snapshot, recipes, self.records, source=SOURCE, warn=warn)

    def train(self, lineage: Lineage, number: int, **changes: Any) -> None:
        final, points = row(number, **changes), curve(number)
        self.records.append([final], points)
        lineage.record(final, points)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


def client(uri: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's use of SQLAlchemy is not ours to judge
        from mlflow.tracking import MlflowClient

        return MlflowClient(tracking_uri=uri)


def all_runs(uri: str) -> tuple[Any, dict[str, list[Any]]]:
    """The parent, and the children by run id."""
    ours = client(uri)
    runs = ours.search_runs([ours.get_experiment_by_name("widths").experiment_id])
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children: dict[str, list[Any]] = {}
    for run in runs:
        if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id:
            children.setdefault(run.data.tags["seedbed.run_id"], []).append(run)
    return parent, children


def check_complete(uri: str, *numbers: int) -> None:
    """One finished child for each of `numbers`, and no others, with every parameter and every point in order."""
    _, children = all_runs(uri)
    assert {run_id: len(runs) for run_id, runs in children.items()} == {PLAN[number][0]: 1 for number in numbers}
    for number in numbers:
        run_id, arm, seed = PLAN[number]
        (run,) = children[run_id]
        assert run.info.status == "FINISHED"
        assert run.info.end_time == row(number)["finished"].timestamp() * 1000
        assert run.info.end_time - run.info.start_time == 4 * 90_500  # it began with the four of its cohort
        assert run.data.params == RECIPE | {"seed": str(seed)}
        assert run.data.metrics["final_val_loss"] == row(number)["val_loss"]
        tags = {name: run.data.tags[f"seedbed.{name}"] for name in ("arm", "seed", "status", "device", "commit")}
        assert tags == {"arm": arm, "seed": str(seed), "status": "completed", "device": "cpu", "commit": "c" * 40}
        assert (run.data.tags["seedbed.corpus_sha256"], run.data.tags["seedbed.study"]) == ("5e" * 32, "widths")
        for name in NAMES:
            told = client(uri).get_metric_history(run.info.run_id, name)
            expected = [(p["step"], p["value"]) for p in curve(number) if p["name"] == name]
            assert [(point.step, point.value) for point in told] == expected


def test_every_run_is_one_complete_child_and_a_restart_adds_none(study: Study, store: str) -> None:
    first = study.session(store)
    first.send_missing()
    for number in range(3):
        study.train(first, number)
    first.finish()
    assert all_runs(store)[0].info.status == "KILLED"
    second = study.session(store)
    second.send_missing()
    study.train(second, 3)
    second.record(row(0), curve(0)[:100])  # sent twice: changes nothing
    second.finish()
    assert study.warnings == []
    check_complete(store, 0, 1, 2, 3)
    parent, children = all_runs(store)
    assert (parent.info.status, parent.data.tags["seedbed.runs"]) == ("FINISHED", "4 of 4")
    reference = {"uri": store, "experiment_id": parent.info.experiment_id, "parent": parent.info.run_id}
    assert second.reference == reference | {"runs": {name: runs[0].info.run_id for name, runs in children.items()}}
    study.records.write_snapshot(study.snapshot | {"tracking": second.reference})
    assert study.session(store).reference == second.reference  # known before, or without, any connection


def test_source_and_results_are_attached(study: Study, store: str, tmp_path: Path) -> None:
    import mlflow

    lineage = study.session(store)
    lineage.send_missing()
    study.train(lineage, 0)
    (study.records.folder / "report.html").write_text("<p>page</p>")
    (study.records.folder / "finding.md").write_text("# q is better\n")
    verdict = '{"comparisons": [{"arm": "q", "verdict": "better"}]}'
    (study.records.folder / "verdict.json").write_text(verdict)
    lineage.finish()
    parent, children = all_runs(store)
    (child,) = children[PLAN[0][0]]
    name = f"uncommitted-{child.data.tags['seedbed.diff_sha256'][:12]}.diff"
    names = {item.path for item in client(store).list_artifacts(parent.info.run_id)}
    assert names == {"report.html", "finding.md", "verdict.json", "study.json", name}
    assert mlflow.artifacts.load_text(f"{parent.info.artifact_uri}/{name}") == SOURCE.diff
    assert (tmp_path / "mlartifacts" / "widths" / parent.info.run_id / "artifacts" / name).is_file()
    assert (child.data.tags["seedbed.uncommitted"], child.data.tags["seedbed.untracked"]) == ("true", "notes.txt")
    assert parent.data.tags["mlflow.note.content"] == "# q is better\n"
    assert parent.data.tags["seedbed.verdict"] == "q: better"


def test_a_crash_is_told_and_the_same_child_recovers(study: Study, store: str) -> None:
    lineage = study.session(store)
    lineage.failed(PLAN[0][0], "worker died: " + "x" * 9000)
    (child,) = all_runs(store)[1][PLAN[0][0]]
    assert (child.info.status, child.data.tags["seedbed.status"]) == ("FAILED", "crashed")
    assert child.data.tags["seedbed.reason"].startswith("worker died: x")
    again = study.session(store)
    again.send_missing()
    study.train(again, 0)
    (same,) = all_runs(store)[1][PLAN[0][0]]
    assert (same.info.run_id, same.info.status) == (child.info.run_id, "FINISHED")
    assert "seedbed.reason" not in same.data.tags
    assert same.data.tags["seedbed.status"] == "completed"
    assert study.warnings == []


def test_divergence_is_an_outcome(study: Study, store: str) -> None:
    lineage = study.session(store)
    final = row(1, status="diverged", diverged_at=2, val_loss=math.nan, val_window_sd=math.nan, steps=2)
    points = curve(1, 2) + [p | {"value": v} for v, p in zip((math.inf, math.nan), curve(1, 4)[2:4], strict=True)]
    final["commit"] = None
    study.records.append([final], points)
    lineage.send_missing()  # read back from Parquet, where the columns have pandas' types
    (child,) = all_runs(store)[1][PLAN[1][0]]
    assert child.info.status == "FINISHED"
    assert (child.data.tags["seedbed.status"], child.data.tags["seedbed.diverged_at"]) == ("diverged", "2")
    assert "final_val_loss" not in child.data.metrics
    assert child.data.tags["seedbed.commit"] == "unknown"
    values = [point.value for point in client(store).get_metric_history(child.info.run_id, "train_loss")]
    assert values[:2] == [2.0, 1 + math.exp(-1 / 300)]
    assert [math.isnan(value) for value in values[2:]] == [True, True]
    assert study.warnings == []


def test_values_too_long_for_mlflow_are_cut_and_known_parameters_stay(study: Study, store: str) -> None:
    long = {PLAN[0][0]: {"model.note": "word " * 2000}}
    for _ in range(2):
        lineage = Lineage(store, study.snapshot, long, study.records, source=SOURCE, warn=study.warnings.append)
        lineage.record(row(0), [])
    (child,) = all_runs(store)[1][PLAN[0][0]]
    assert len(child.data.params["model.note"]) == 6000
    assert study.warnings == []


def test_a_child_deleted_by_hand_is_sent_again(study: Study, store: str) -> None:
    lineage = study.session(store)
    study.train(lineage, 0)
    client(store).delete_run(lineage.reference["runs"][PLAN[0][0]])
    study.session(store).send_missing()
    check_complete(store, 0)


# Stores that cannot be used: one plain sentence, no exception, nothing lost.


def check_survives(study: Study, uri: str, reason: str, seconds: float = 5.5) -> None:
    import mlflow.tracking  # noqa: F401  # a second or more, which is not what is timed

    lineage = study.session(uri)
    started = time.monotonic()
    lineage.send_missing()
    try:
        raise KeyError("the caller's own trouble, which is not MLflow's")
    except KeyError:
        for number in range(2):
            study.train(lineage, number)
    lineage.failed(PLAN[2][0], "worker died")
    assert time.monotonic() - started < seconds
    (sentence,) = study.warnings
    assert reason in sentence
    assert "results are still recorded in" in sentence
    assert "\n" not in sentence
    assert "secret" not in sentence
    assert len(study.records.runs()) == 2
    assert lineage.reference["runs"] == {}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_no_server_there(study: Study) -> None:
    check_survives(study, f"http://me:secret@127.0.0.1:{free_port()}", "Connection refused", 3)


def test_a_server_that_never_answers(study: Study) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        check_survives(study, f"http://me:secret@127.0.0.1:{silent.getsockname()[1]}", "timed out", 7)


def test_a_folder_is_no_store(study: Study, tmp_path: Path) -> None:
    check_survives(study, f"{tmp_path}/mlruns", "maintenance mode")


def test_a_file_that_is_no_database(study: Study, tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("minutes of a meeting, page 1\n" * 100)
    check_survives(study, f"sqlite:///{tmp_path}/mlflow.db", "file is not a database")
    assert (tmp_path / "mlflow.db").read_text().startswith("minutes")


def test_a_path_below_a_file(study: Study, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check_survives(study, f"sqlite:///{tmp_path}/file/mlflow.db", f"File exists: {tmp_path}/file")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_database(study: Study, store: str, tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").chmod(0o444)
    check_survives(study, store, "readonly database")


def test_a_locked_database(study: Study, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "SECONDS", 1)
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        check_survives(study, store, "database is locked", 4)
    study.session(store).send_missing()
    check_complete(store, 0, 1)


def test_an_experiment_in_the_bin(study: Study, store: str) -> None:
    study.session(store).send_missing()
    client(store).delete_experiment(client(store).get_experiment_by_name("widths").experiment_id)
    check_survives(study, store, "mlflow experiments restore --experiment-id")


def test_artifacts_that_cannot_be_kept_do_not_keep_runs_away(study: Study, store: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    client(store).create_experiment("widths", artifact_location=f"file://{tmp_path}/file/below")
    lineage = study.session(store)
    study.records.append([row(0)], curve(0))
    lineage.send_missing()
    lineage.finish()
    check_complete(store, 0)
    (sentence,) = study.warnings
    assert "Not a directory" in sentence or "File exists" in sentence


# A real server.


@contextlib.contextmanager
def server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`mlflow server` on the store in `folder`, ready to answer; killed at the end."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/remote"]
    # Its job runner, eight more processes, is for other uses of MLflow.
    environment = os.environ | {"DO_NOT_TRACK": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with open(folder / "server.log", "ab") as log:
        process = subprocess.Popen(command, start_new_session=True, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                break
            assert process.poll() is None, "the server ended by itself"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.usefixtures("store")
def test_a_server_that_dies_and_comes_back(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")  # a user's own value wins; a busy machine may need it here
    port = free_port()
    uri = f"http://me:secret@127.0.0.1:{port}"
    with server(tmp_path, port) as process:
        lineage = study.session(uri)
        lineage.send_missing()
        study.train(lineage, 0)
        assert study.warnings == []
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for number, bound in ((1, 5), (2, 1)):  # the first notices, the second does not even ask
            started = time.monotonic()
            study.train(lineage, number)
            assert time.monotonic() - started < bound
        assert len(study.warnings) == 1
        known = lineage.reference
        assert (known["uri"], list(known["runs"])) == (f"http://127.0.0.1:{port}", [PLAN[0][0]])
    with server(tmp_path, port):
        lineage.send_missing()  # the very same session goes on
        assert set(lineage.reference["runs"]) == {PLAN[number][0] for number in range(3)}
        again = study.session(uri)
        again.send_missing()
        study.train(again, 3)
        again.finish()
        parent, _ = all_runs(uri)
        page = client(uri).list_artifacts(parent.info.run_id)
    assert "study.json" in {item.path for item in page}
    assert len(study.warnings) == 1
    check_complete(f"sqlite:///{tmp_path}/mlflow.db", 0, 1, 2, 3)  # what the server wrote, read from its own store


# A process of its own: nothing on the terminal, nothing on the network, nothing imported before it is needed.

ALONE = """
import sys, warnings
sys.path[:0] = [{root!r}, {tests!r}]
warnings.simplefilter("default")
from pathlib import Path
import sweeps.engine.lineage
assert "mlflow" not in sys.modules and "sqlalchemy" not in sys.modules
from test_lineage import Study
asked = []
sys.addaudithook(lambda event, args: asked.append((event, args)) if event.startswith("socket.") else None)
study = Study(Path("."))
lineage = study.session("sqlite:///new/mlflow.db")
lineage.send_missing()
study.train(lineage, 0)
lineage.finish()
assert not study.warnings, study.warnings
import mlflow
assert mlflow.telemetry.get_telemetry_client() is None
contacts = [one for one in asked if one[0] in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname")]
assert not contacts, contacts
"""


def test_a_new_store_is_made_in_silence_and_nobody_is_told(tmp_path: Path) -> None:
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("MLFLOW_", "PYTEST_", "CI", "DO_NOT", "GITHUB"))}
    code = ALONE.format(root=str(ROOT), tests=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"mlflow.db", "mlartifacts"}
    assert {path.name for path in tmp_path.iterdir()} == {"new", "results"}
