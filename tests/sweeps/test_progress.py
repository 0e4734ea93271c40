import io
import re
from dataclasses import replace
from types import ModuleType

import pandas as pd
import pytest
from rich.console import Console

from analysis.compare import Analysis, analyse
from analysis.records import RUNS
from model.corpus.text import Corpus
from model.train import Result
from sweeps.engine.grid import Grid
from sweeps.engine.plan import Cohort, Plan, make_plan
from sweeps.engine.progress import Progress, endings, names
from sweeps.engine.snapshot import make_snapshot


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def plan(tiny: ModuleType, corpus: Corpus) -> Plan:
    """Nine runs of 30 updates each, of which the three of seed 0 are recorded."""
    whole = make_plan(tiny.study(), corpus, [])
    return whole.after(run.run_id for run in whole.runs[:3])


@pytest.fixture
def cohorts(plan: Plan) -> list[Cohort]:
    """Four runs of the narrow program, then two of the wide one."""
    made = plan.cohorts(1, 2**30)
    assert [len(cohort) for cohort in made] == [4, 2]
    return made


@pytest.fixture
def nothing(plan: Plan, corpus: Corpus) -> Analysis:
    return analyse(pd.DataFrame(columns=[*RUNS.names, "stage", "point"]), make_snapshot(plan, corpus), noise=False)


def test_runs_are_counted_and_not_cohorts(plan: Plan, cohorts: list[Cohort], nothing: Analysis) -> None:
    """180 updates in two cohorts: 90 of them in 9 s leave 90, so 9 s."""
    clock = Clock()
    progress = Progress(Console(file=io.StringIO()), plan, cohorts, clock=clock)
    assert progress.counts() == "3/9 runs done, 0 running, 6 left"
    progress.advanced(0, 0)  # it compiles
    assert progress.counts() == "3/9 runs done, 4 running, 2 left"
    progress.advanced(0, 40)
    clock.now = 4.0
    assert progress.counts() == "3/9 runs done, 4 running, 2 left, about 14 s to go"
    progress.advanced(1, 20)
    clock.now = 6.0
    assert progress.counts() == "3/9 runs done, 6 running, 0 left, about 12 s to go"
    progress.recorded(1, "a", nothing)
    progress.advanced(0, 30)  # its worker died, and another one goes on from its last state
    clock.now = 9.0
    assert progress.counts() == "5/9 runs done, 4 running, 0 left, about 9 s to go"
    progress.lost(0, "b failed")
    assert progress.counts() == "5/9 runs done, 0 running, 0 left, 4 failed"


def test_what_an_earlier_launch_has_made_does_not_flatter_the_estimate(plan: Plan, cohorts: list[Cohort]) -> None:
    """100 of 180 updates were there when it began; 20 more in 10 s leave 60, so 30 s and not 5."""
    clock = Clock()
    progress = Progress(Console(file=io.StringIO()), plan, cohorts, resumed=[0], clock=clock)
    progress.advanced(0, 0)
    progress.advanced(0, 100)
    assert progress.seconds_left() is None
    progress.advanced(0, 110)
    progress.advanced(1, 10)
    clock.now = 10.0
    assert progress.seconds_left() == 30.0


def test_on_a_pipe_a_line_per_ending(plan: Plan, cohorts: list[Cohort], nothing: Analysis) -> None:
    file = io.StringIO()
    with Progress(Console(file=file, width=60), plan, cohorts, clock=Clock()) as progress:
        progress.advanced(1, 10)
        progress.recorded(1, "wide seeds 1, 2: 2.3456, 2.4567 (1 s a run)", nothing)
    (line,) = file.getvalue().splitlines()
    assert line.startswith("wide seeds 1, 2: 2.3456, 2.4567 (1 s a run). 5/9 runs done, 0 running, 4 left")
    assert line.endswith("So far, before all 3 planned seeds: wide undecided; wild undecided.")


def test_on_a_terminal_a_live_table(plan: Plan, cohorts: list[Cohort], nothing: Analysis) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80)
    with Progress(console, plan, cohorts, clock=Clock()) as progress:
        progress.advanced(0, 10)
        progress.recorded(0, "narrow seeds 1, 2", nothing)
    shown = file.getvalue()
    assert "tiny: 7/9 runs done" in shown
    assert "So far, before all 3 planned seeds:" in shown
    assert "no interval yet" in shown
    assert not re.search(r"━.*wide", shown)  # the bar has a line of its own


def told(plan: Plan, analysis: Analysis) -> str:
    file = io.StringIO()
    with Progress(Console(file=file), plan, plan.cohorts(1, 2**30)) as progress:
        progress.recorded(0, "a", analysis)
    return file.getvalue()


def test_a_running_verdict_says_of_how_many_of_the_planned_seeds_it_is(
    plan: Plan, corpus: Corpus, nothing: Analysis
) -> None:
    """Fewest of the arms, diverged ones too. Of a study that is looked at no number is planned."""
    arms = tuple(
        replace(arm, n=n, diverged=lost) for arm, n, lost in zip(nothing.arms, (3, 2, 0), (0, 0, 2), strict=True)
    )
    assert "So far, before all 3 planned seeds: wide undecided" in told(plan, replace(nothing, arms=arms))
    done = tuple(replace(arm, n=3) for arm in nothing.arms)
    assert "So far: wide undecided" in told(plan, replace(nothing, arms=done))
    looked_at = replace(plan, study=plan.study.until_decided(8))
    assert "So far: wide undecided" in told(looked_at, replace(nothing, arms=arms))


def result(seed: int, val_loss: float, diverged_at: int | None = None) -> Result:
    return Result(seed, diverged_at, val_loss, 0.1, 2.0, 2.5, 1720, 30, 1920, seconds=34.6, cohort=4, curve=())


def test_an_ending_names_the_runs_of_each_arm(cohorts: list[Cohort]) -> None:
    assert [run.arm for run in cohorts[0]] == ["narrow", "wild", "narrow", "wild"]
    told = endings(cohorts[0], [result(1, 2.34564), result(1, 0.0, 7), result(2, 2.5), result(2, 2.25)])
    assert told == "narrow seeds 1, 2: 2.3456, 2.5000; wild seeds 1, 2: diverged at step 7, 2.2500 (35 s a run)"


def test_runs_of_a_grid_are_named_by_their_points(tiny: ModuleType, corpus: Corpus) -> None:
    grid = Grid("optimizer.learning_rate", (1e-3, 1e-2), seeds=3)
    plan = make_plan(tiny.study().with_arms(("wide",)).replace(tune=grid), corpus, [])
    cohort = tuple(run for run in plan.runs if run.arm == "wide")
    assert names(cohort) == "wide at 0.001 seeds 1000000-1000002; wide at 0.01 seeds 1000000-1000002"
    told = endings(cohort[:3], [result(1_000_000, 2.5), result(1_000_000, 1.5), result(1_000_001, 2.25)])
    assert (
        told == "wide at 0.001 seeds 1000000, 1000001: 2.5000, 2.2500; wide at 0.01 seed 1000000: 1.5000 (35 s a run)"
    )


def test_a_further_round_is_counted_with_the_first(plan: Plan, corpus: Corpus, nothing: Analysis) -> None:
    """Six runs of 30 updates in 10 s, then six more of which 90 of 180 updates are made in 5 s."""
    clock = Clock()
    first = plan.cohorts(1, 2**30)
    progress = Progress(Console(file=io.StringIO()), plan, first, clock=clock)
    clock.now = 10.0
    for number in range(len(first)):
        progress.recorded(number, "a", nothing)
    assert progress.counts() == "9/9 runs done, 0 running, 0 left"
    more = make_plan(plan.study.replace(seeds=tuple(range(5))), corpus, [run.run_id for run in plan.runs])
    progress.add(more, more.cohorts(1, 2**30))
    assert progress.counts() == "9/15 runs done, 0 running, 6 left, about 10 s to go"
    progress.advanced(len(first), 90)
    clock.now = 15.0
    assert progress.counts() == "9/15 runs done, 4 running, 2 left, about 5 s to go"


def test_losses_stand_in_the_order_of_the_seeds_whatever_that_of_the_runs(tiny: ModuleType, corpus: Corpus) -> None:
    plan = make_plan(tiny.study().with_arms(("wide",)).replace(seeds=(7, 0, 2, 1)), corpus, [])
    cohort = plan.cohorts(1, 2**30)[1]
    assert endings(cohort, [result(run.seed, float(run.seed)) for run in cohort]) == (
        "wide seeds 0-2, 7: 0.0000, 1.0000, 2.0000, 7.0000 (35 s a run)"
    )
    assert endings(cohort[:1], [result(7, 4.0)]) == "wide seed 7: 4.0000 (35 s)"
