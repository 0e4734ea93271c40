"""What a person sees while runs train: a live table on a terminal, plain lines on a pipe."""

import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from analysis.compare import Analysis
from analysis.design import TUNE
from analysis.wording import duration, numbers
from model.train import Result
from sweeps.engine.plan import Cohort, Plan, Run

REFRESHES_PER_SECOND = 2


class Progress:
    """Counts runs done, running and left, estimates the time left, and shows the running verdict.

    `cohorts` are those that are launched, of which those numbered in `resumed` go on from a state; `add` takes those of
    a further round. Updates are summed over members. The estimate is elapsed time scaled by updates left over updates
    made since the start, so it needs no model of the machine; what a resumed cohort has made when it is first heard of
    took none of that time.
    """

    def __init__(
        self,
        console: Console,
        plan: Plan,
        cohorts: Sequence[Cohort] = (),
        resumed: Collection[int] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console, self.plan, self.clock = console, plan, clock
        self.members: list[int] = []
        self.sizes: list[int] = []
        self.made: list[int] = []
        self.before: list[int] = []
        self.resumed: set[int] = set()
        self.done, self.failed = len(plan.recorded), 0
        self.begun: set[int] = set()
        self.ended: set[int] = set()
        self.analysis: Analysis | None = None
        self.started = clock()
        self.live = Live(console=console, auto_refresh=False, transient=True, get_renderable=self._table)
        self.drawn = -1.0
        self.add(plan, cohorts, resumed)

    def add(self, plan: Plan, cohorts: Sequence[Cohort], resumed: Collection[int] = ()) -> None:
        """`cohorts` are launched besides, and `plan` is all that is asked for now."""
        self.plan, self.done = plan, len(plan.recorded)
        self.members += [len(cohort) for cohort in cohorts]
        self.sizes += [sum(run.recipe.budget.steps for run in cohort) for cohort in cohorts]
        self.made += [0] * len(cohorts)
        self.before += [0] * len(cohorts)
        self.resumed |= set(resumed)

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def advanced(self, cohort: int, steps: int) -> None:
        """`steps` updates of `cohort` are made, summed over its members."""
        self.begun.add(cohort)
        if cohort in self.resumed and not self.made[cohort]:
            self.before[cohort] = steps
        self.made[cohort] = steps
        self._redraw()

    def recorded(self, cohort: int, line: str, analysis: Analysis) -> None:
        """The runs of `cohort` are recorded; `line` says how they ended."""
        self.made[cohort] = self.sizes[cohort]
        self.ended.add(cohort)
        self.done += self.members[cohort]
        self.analysis = analysis
        self._line(line)

    def lost(self, cohort: int, line: str) -> None:
        """`cohort` ended without a result, after every retry."""
        self.sizes[cohort] = self.made[cohort] = self.before[cohort] = 0
        self.ended.add(cohort)
        self.failed += self.members[cohort]
        if self.console.is_terminal:
            self.console.print(line, soft_wrap=True)  # above the table, where it stays
        self._line(line)

    def counts(self) -> str:
        """Such as ``12/30 runs done, 5 running, 13 left, about 24 min to go``."""
        total = len(self.plan.runs)
        running = sum(self.members[cohort] for cohort in self.begun - self.ended)
        words = [
            f"{self.done}/{total} runs done",
            f"{running} running",
            f"{total - self.done - running - self.failed} left",
        ]
        if self.failed:
            words.append(f"{self.failed} failed")
        if (left := self.seconds_left()) is not None and self.done + self.failed < total:
            words.append(f"about {duration(left)} to go")
        return ", ".join(words)

    def seconds_left(self) -> float | None:
        """Estimated seconds until the last run is recorded; None before anything was trained."""
        left, made = sum(self.sizes) - sum(self.made), sum(self.made) - sum(self.before)
        return (self.clock() - self.started) * left / made if made else None

    def _line(self, line: str) -> None:
        if self.console.is_terminal:
            self.live.refresh()
        else:
            verdicts = "; ".join(f"{c.arm} {c.verdict}" for c in self.analysis.comparisons) if self.analysis else ""
            self.console.print(
                f"{line}. {self.counts()}." + (f" {self._so_far()}: {verdicts}." if verdicts else ""), soft_wrap=True
            )

    def _so_far(self) -> str:
        """What the running verdicts begin with; of a fixed number of seeds they are not the planned ones."""
        planned, arms = len(self.plan.study.seeds), self.analysis.arms if self.analysis else ()
        done = min((arm.n + arm.diverged for arm in arms), default=0)
        if self.plan.study.looks or done >= planned:
            return "So far"
        return f"So far, before all {planned} planned seeds"

    def _redraw(self) -> None:
        if self.console.is_terminal and self.clock() - self.drawn > 1 / REFRESHES_PER_SECOND:
            self.drawn = self.clock()
            self.live.refresh()

    def _table(self) -> Group:
        bar = Table.grid()  # a bar alone ends no line
        bar.add_row(ProgressBar(total=max(1, sum(self.sizes)), completed=sum(self.made), width=40))
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for comparison in self.analysis.comparisons if self.analysis else ():
            low, high = comparison.interval95.low, comparison.interval95.high
            known = f"{comparison.difference:+.4f} [{low:+.4f}, {high:+.4f}]" if comparison.n > 1 else "no interval yet"
            table.add_row(comparison.arm, f"n = {comparison.n}", known, str(comparison.verdict))
        so_far = [Text(f"{self._so_far()}:")] if table.row_count else []
        return Group(Text(f"{self.plan.study.name}: {self.counts()}"), bar, *so_far, table)


def endings(runs: Cohort, results: Sequence[Result]) -> str:
    """How a cohort ended, arm by arm, such as ``128x256 seeds 0-2: 4.2198, 4.2101, 4.2250 (35 s a run)``."""
    told = []
    for named, alike in _alike(runs).items():
        own = sorted((results[place] for place in alike), key=lambda result: result.seed)
        told.append(f"{named}: {', '.join(map(_ending, own))}")
    return f"{'; '.join(told)} ({results[0].seconds:.0f} s{' a run' if len(runs) > 1 else ''})"


def names(runs: Sequence[Run]) -> str:
    """Such as ``128x256 seeds 0-4; 112x392 at 0.003 seed 1000000``, in signs that every terminal has."""
    return "; ".join(_alike(runs))


def _alike(runs: Sequence[Run]) -> dict[str, list[int]]:
    """The places in `runs` of those of one arm, and of one point of the grid, by what they are called together."""
    groups: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        at = f" at {run.point:g}" if run.stage == TUNE else ""
        groups.setdefault(f"{run.arm}{at}", []).append(place)
    return {f"{what} {_seeds([runs[i].seed for i in places])}": places for what, places in groups.items()}


def _seeds(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {numbers(seeds).replace('–', '-')}"


def _ending(result: Result) -> str:
    return f"{result.val_loss:.4f}" if result.diverged_at is None else f"diverged at step {result.diverged_at}"
