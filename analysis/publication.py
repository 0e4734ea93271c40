"""What a study's records say of the figures that others have published of its arms, and what can be said of why not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from analysis.alarms import NEAR
from analysis.design import JUDGE
from analysis.intervals import NAN, Interval, mean_interval, sd_of
from analysis.published import Held, Outcome, Spread, hold, pooled
from analysis.records import COMPLETED

LAST_BATCH = "last_batch_loss"


@dataclass(frozen=True)
class Row:
    """A figure of an arm, or with `against` the gap between two arms' figures, and what was found of it.

    `held_out` is ours on all held-out text: the mean over seeds, for a gap of the per-seed differences.
    """

    arm: str
    against: str
    measure: str
    held: Held
    held_out: float
    held_out95: Interval
    held_out_error: float
    diverged: int
    note: str
    why: str


@dataclass(frozen=True)
class Publication:
    """All figures and gaps of one source, the spread they were judged by, ours less theirs on average, and the rule in
    words, with the numbers that were fixed before any run and where they are from."""

    source: str
    figures: tuple[Row, ...]
    gaps: tuple[Row, ...]
    spread: Spread
    offset: float
    rule: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """What came out, in words."""
        told = [_counted("figure", self.figures)] + ([_counted("gap", self.gaps)] if self.gaps else [])
        if isfinite(self.offset):
            place = "above" if self.offset > 0 else "below"
            told.append(f"By the same measure ours lie {abs(self.offset):.3f} {place} the figures on average.")
        return tuple(told)


def hold_published(runs: pd.DataFrame, curves: pd.DataFrame, snapshot: Mapping[str, Any]) -> Publication | None:
    """The judged ones of `runs`, with their curves, held against what their study declares; None where that is nothing.

    A gap is that of a pair of arms which both have a figure off the last batch.
    """
    published = snapshot.get("published")
    if not published:
        return None
    runs = runs[runs["stage"] == JUDGE]
    done = runs[runs["status"] == COMPLETED]
    figures = {(f["arm"], f["measure"]): f for f in published["figures"]}
    taken = {key: _measured(done[done["arm"] == key[0]], curves, key[1]) for key in figures}
    pairs = [
        (a, b) for a, b in snapshot.get("pairs") or () if (a, LAST_BATCH) in figures and (b, LAST_BATCH) in figures
    ]
    gaps = [_paired(taken[a, LAST_BATCH], taken[b, LAST_BATCH]) for a, b in pairs]
    spread = pooled(published["sd"], published["sd_runs"], [[*s.values()] for s in taken.values()])
    values = [f["value"] for f in figures.values()]
    values += [figures[a, LAST_BATCH]["value"] - figures[b, LAST_BATCH]["value"] for a, b in pairs]
    samples = [[*sample.values()] for sample in (*taken.values(), *gaps)]
    scales = [1.0] * len(figures) + [2**0.5] * len(pairs)
    held = hold(values, samples, spread, published["tolerance"], scales)
    held_out = {arm: _measured(done[done["arm"] == arm], curves, "val_loss") for arm in {arm for arm, _ in figures}}
    bad = runs.loc[runs["status"] != COMPLETED, "arm"].tolist()
    facts = _Facts(held_out, Counter(bad), snapshot["baselines"], spread, published["tolerance"])
    rows = [
        facts.row(arm, "", measure, one, taken[arm, measure] if measure != LAST_BATCH else held_out[arm], f["note"])
        for ((arm, measure), f), one in zip(figures.items(), held, strict=False)
    ]
    between = [
        facts.row(a, b, LAST_BATCH, one, _paired(held_out[a], held_out[b]), "")
        for (a, b), one in zip(pairs, held[len(figures) :], strict=True)
    ]
    known = [row.held.difference for row in rows if row.held.n]
    offset = float(np.mean(known)) if known else NAN
    return Publication(published["source"], tuple(rows), tuple(between), spread, offset, _rule(spread, published))


def _rule(spread: Spread, declared: Mapping[str, Any]) -> str:
    return (
        f"A figure is one run, read off one batch; it moves by chance with an SD of {spread.sd:.3f} ({spread.df:.0f} "
        f"degrees of freedom; declared: {declared['sd']:g}, {declared['sd_reason']}), and a gap with √2 times that. It "
        f"agrees where the difference is shown to lie within ±{declared['tolerance']:g} "
        f"({declared['tolerance_reason']}), by two one-sided t tests at 5 %, each figure for itself. It differs where "
        "it is shown to be no further run of ours, by a t test with Holm's method over all figures and gaps."
    )


def _measured(runs: pd.DataFrame, curves: pd.DataFrame, measure: str) -> dict[int, float]:
    """Seed -> value of `measure`: a column of the runs, or the last point of the curve of that name."""
    if measure in runs:
        return dict(zip(runs["seed"].tolist(), runs[measure].tolist(), strict=True))
    own = curves[(curves["name"] == measure) & curves["run_id"].isin(runs["run_id"])].sort_values("step")
    last = own.groupby("run_id")["value"].last()
    return {seed: float(last[run]) for seed, run in zip(runs["seed"], runs["run_id"], strict=True) if run in last}


def _paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
    return {seed: ours[seed] - theirs[seed] for seed in ours if seed in theirs}


@dataclass(frozen=True)
class _Facts:
    """What can be computed of why a figure is not met."""

    held_out: Mapping[str, Mapping[int, float]]
    diverged: Mapping[str, int]
    floors: Mapping[str, float]
    spread: Spread
    tolerance: float

    def row(self, arm: str, against: str, measure: str, held: Held, on_text: Mapping[int, float], note: str) -> Row:
        values = [*on_text.values()]
        mean = float(np.mean(values)) if values else NAN
        bad = self.diverged.get(arm, 0) + (self.diverged.get(against, 0) if against else 0)
        why = self._why(held, mean, bad, bool(against))
        error = sd_of(values) / len(values) ** 0.5 if values else NAN
        return Row(arm, against, measure, held, mean, mean_interval(values, 0.95), error, bad, note, why)

    def _why(self, held: Held, mean: float, diverged: int, gap: bool) -> str:
        lost = f"{diverged} of the runs diverged and are not in the mean. " if diverged else ""
        if not held.n:
            return lost or "Nothing is recorded yet."
        if held.outcome is Outcome.AGREES:
            return lost.strip()
        floor = self.floors.get("unigram", NAN)
        if not gap and mean >= floor - NEAR and held.figure < floor - NEAR:
            return lost + (
                f"Ours ends at what a model that ignores its input scores on this text ({floor:.3f}); the figure lies "
                f"{floor - held.figure:.3f} below that, so it was read off another text."
            )
        if held.outcome is Outcome.DIFFERS:
            return lost + f"By chance one run read off one batch lies within ±{held.half95:.2f} of ours."
        least = held.half95 / (1 + 1 / held.n) ** 0.5
        return lost + (
            f"A single run moves by ±{held.half95:.2f} by chance, too much to tell a difference or to show one below "
            f"{self.tolerance:g}; with any number of seeds it is ±{least:.2f}."
        )


def _counted(noun: str, rows: Sequence[Row]) -> str:
    counts = {outcome: sum(row.held.outcome is outcome for row in rows) for outcome in Outcome}
    return (
        f"Of {len(rows)} {noun}{'s' * (len(rows) != 1)} {counts[Outcome.AGREES]} agree, {counts[Outcome.DIFFERS]} "
        f"differ{'s' * (counts[Outcome.DIFFERS] == 1)} and {counts[Outcome.OPEN]} cannot be told."
    )
