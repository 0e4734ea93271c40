"""Every kind of interruption of a study, with a real Ray and a real MLflow store, and the same numbers in the end."""

import os
import re
import signal
import subprocess
import sys
import time
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

from model.corpus.text import Corpus
from model.hardware import native_bf16
from model.parts.feedforward import GELUFeedForward
from model.recipe import Member
from model.train import train
from sweeps.engine import launch
from sweeps.engine.plan import make_plan, whole
from sweeps.engine.study import Study
from tests.sweeps.folders import children, results_of, rows, study_in

Give = Callable[..., tuple[int, str, str]]
TINY = Path(__file__).parent / "tiny.py"


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


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 300) -> None:
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
