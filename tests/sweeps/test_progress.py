import io
import re
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
from rich.console import Console

from analysis.compare import analyse
from analysis.records import RUNS
from model.corpus.text import build_corpus, read_documents
from sweeps.engine.plan import Plan, make_plan
from sweeps.engine.progress import Progress
from sweeps.engine.snapshot import make_snapshot
from sweeps.engine.source import CommitState


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def plan(tiny: ModuleType, text: Path) -> Plan:
    whole = make_plan(tiny.study(), build_corpus("t", read_documents(text), 12, 8), [])
    return whole.after(run.run_id for run in whole.runs[:3])


def nothing(plan: Plan, text: Path):  # type: ignore[no-untyped-def]
    corpus = build_corpus("t", read_documents(text), 12, 8)
    return analyse(pd.DataFrame(columns=RUNS.names), make_snapshot(plan, corpus, "", CommitState(None)), noise=False)


def test_counts_and_time_left(plan: Plan, text: Path) -> None:
    """Six cohorts of 30 updates after three recorded runs; 45 updates in 9 s leave 135 updates, so 27 s."""
    clock = Clock()
    progress = Progress(Console(file=io.StringIO()), plan, [30] * 6, clock)
    assert progress.counts() == "3/9 runs done, 0 running, 6 left"
    progress.advanced(0, 15)
    progress.advanced(1, 10)
    clock.now = 3.0
    assert progress.counts() == "3/9 runs done, 2 running, 4 left, about 19 s to go"
    progress.recorded(0, 1, "a", nothing(plan, text))
    progress.advanced(1, 15)
    clock.now = 9.0
    assert progress.counts() == "4/9 runs done, 1 running, 4 left, about 27 s to go"
    progress.lost(1, 1, "b failed")
    assert progress.counts() == "4/9 runs done, 0 running, 4 left, 1 failed, about 36 s to go"


def test_on_a_pipe_a_line_per_ending(plan: Plan, text: Path) -> None:
    file = io.StringIO()
    with Progress(Console(file=file, width=60), plan, [30] * 6, Clock()) as progress:
        progress.advanced(0, 10)
        progress.recorded(0, 1, "narrow seed 0: 2.3456 (1 s)", nothing(plan, text))
    (line,) = file.getvalue().splitlines()
    assert line.startswith("narrow seed 0: 2.3456 (1 s). 4/9 runs done, 0 running, 5 left")
    assert line.endswith("So far: wide undecided; wild undecided.")


def test_on_a_terminal_a_live_table(plan: Plan, text: Path) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80)
    with Progress(console, plan, [30] * 6, Clock()) as progress:
        progress.advanced(0, 10)
        progress.recorded(0, 1, "narrow seed 0", nothing(plan, text))
    shown = file.getvalue()
    assert "tiny: 4/9 runs done" in shown
    assert "no interval yet" in shown
    assert not re.search(r"━.*wide", shown)  # the bar has a line of its own
