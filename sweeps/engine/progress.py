"""What a person sees while runs train: a live table on a terminal, plain lines on a pipe."""

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from analysis.compare import Analysis
from analysis.wording import duration
from sweeps.engine.plan import Plan

REFRESHES_PER_SECOND = 2


class Progress:
    """Counts done, running and left, estimates the time left, and shows the running verdict.

    `sizes` holds the updates of each cohort that is launched. The estimate is elapsed time scaled by updates left over
    updates made since the start, so it needs no model of the machine.
    """

    def __init__(
        self, console: Console, plan: Plan, sizes: list[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.console, self.plan, self.sizes, self.clock = console, plan, sizes, clock
        self.made = [0] * len(sizes)
        self.done, self.failed = len(plan.recorded), 0
        self.ended: set[int] = set()
        self.analysis: Analysis | None = None
        self.started = clock()
        self.live = Live(console=console, auto_refresh=False, transient=True, get_renderable=self._table)
        self.drawn = -1.0

    def __enter__(self) -> "Progress":
        if self.console.is_terminal:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def advanced(self, cohort: int, steps: int) -> None:
        """`steps` updates of `cohort` are made."""
        self.made[cohort] = steps
        self._redraw()

    def recorded(self, cohort: int, runs: int, line: str, analysis: Analysis) -> None:
        """`cohort` is recorded: `runs` more runs; `line` says how it ended."""
        self.made[cohort] = self.sizes[cohort]
        self.ended.add(cohort)
        self.done += runs
        self.analysis = analysis
        self._line(line)

    def lost(self, cohort: int, runs: int, line: str) -> None:
        """`cohort` ended without a result, after every retry."""
        self.sizes[cohort] = self.made[cohort] = 0
        self.ended.add(cohort)
        self.failed += runs
        if self.console.is_terminal:
            self.console.print(line, soft_wrap=True)  # above the table, where it stays
        self._line(line)

    def counts(self) -> str:
        """Such as ``12/30 runs done, 2 running, 16 left, about 24 min to go``."""
        total = len(self.plan.runs)
        running = sum(1 for cohort, made in enumerate(self.made) if made and cohort not in self.ended)
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
        made, elapsed = sum(self.made), self.clock() - self.started
        return elapsed * (sum(self.sizes) - made) / made if made else None

    def _line(self, line: str) -> None:
        if self.console.is_terminal:
            self.live.refresh()
        else:
            verdicts = "; ".join(f"{c.arm} {c.verdict}" for c in self.analysis.comparisons) if self.analysis else ""
            self.console.print(
                f"{line}. {self.counts()}." + (f" So far: {verdicts}." if verdicts else ""), soft_wrap=True
            )

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
        return Group(Text(f"{self.plan.study.name}: {self.counts()}"), bar, table)
