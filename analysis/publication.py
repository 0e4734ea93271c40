"""What a study's records say of the figures that others have published of its arms, and what can be said of why not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, isfinite
from typing import Any

import numpy as np
import pandas as pd

from analysis.alarms import NEAR
from analysis.design import JUDGE
from analysis.intervals import NAN, Interval, mean_interval, sd_of
from analysis.noise import drawn_batch_sd
from analysis.published import Held, Outcome, Spread, hold, pooled, scale
from analysis.records import COMPLETED
from analysis.verdict import FEWEST_SEEDS

LAST_BATCH = "last_batch_loss"


@dataclass(frozen=True)
class Row:
    """A figure of an arm, or with `against` the gap between two arms' figures, and what was found of it.

    `held_out` is ours on all held-out text: the mean over `held_out_n` seeds, for a gap of the per-seed differences,
    with an interval from three seeds up. `scale` is the figure's SD in that of the source's spread.
    """

    arm: str
    against: str
    measure: str
    held: Held
    scale: float
    held_out: float
    held_out_n: int
    held_out95: Interval
    held_out_error: float
    diverged: int
    note: str
    why: str


@dataclass(frozen=True)
class Publication:
    """All figures and gaps of one source, the spread they were judged by, ours less theirs on average over the `read`
    figures of which ours is by the same measure, the last batch, and the rule in words, with the numbers that were
    fixed before any run and where they are from."""

    source: str
    figures: tuple[Row, ...]
    gaps: tuple[Row, ...]
    spread: Spread
    offset: float
    read: int
    rule: str

    @property
    def sentences(self) -> tuple[str, ...]:
        """What came out, in words."""
        told = [_counted(noun, rows) for noun, rows in (("figure", self.figures), ("gap", self.gaps)) if rows]
        if isfinite(self.offset):
            place = "above" if self.offset > 0 else "below"
            told.append(
                f"By the same measure, the last batch, ours lie {abs(self.offset):.3f} {place} the figures on average, "
                f"over {self.read} of them."
            )
        return tuple(told)

    @property
    def without_interval(self) -> str:
        """Which held-out losses have none, as a sentence; empty where all have one."""
        few = {row.held_out_n for row in (*self.figures, *self.gaps) if 0 < row.held_out_n < FEWEST_SEEDS}
        seeds = "one seed" if few == {1} else f"fewer than {FEWEST_SEEDS} seeds"
        return f"A held-out loss of {seeds} has no interval." if few else ""


def hold_published(runs: pd.DataFrame, curves: pd.DataFrame, snapshot: Mapping[str, Any]) -> Publication | None:
    """The judged ones of `runs`, with their curves, held against what their study declares; None where that is nothing.

    A gap is that of a pair of arms which both have a figure off the last batch. Only losses of last batches join the
    declared spread: those of held-out text, which is many batches, spread less than a figure does.
    """
    published = snapshot.get("published")
    if not published or not published["figures"]:
        return None
    runs = runs[runs["stage"] == JUDGE]
    done = runs[runs["status"] == COMPLETED]
    figures = {(f["arm"], f["measure"]): f for f in published["figures"]}
    taken = {key: _measured(done[done["arm"] == key[0]], curves, key[1]) for key in figures}
    pairs = [
        (a, b) for a, b in snapshot.get("pairs") or () if (a, LAST_BATCH) in figures and (b, LAST_BATCH) in figures
    ]
    gaps = [_paired(taken[a, LAST_BATCH], taken[b, LAST_BATCH]) for a, b in pairs]
    scale_of = {
        arm["name"]: scale(
            drawn_batch_sd(arm, done.loc[done["arm"] == arm["name"], "val_window_sd"].tolist(), snapshot),
            published["sd"],
        )
        for arm in snapshot["arms"]
    }
    batches = {arm: [*sample.values()] for (arm, measure), sample in taken.items() if measure == LAST_BATCH}
    spread = pooled(published["sd"], published["sd_runs"], [*batches.values()], [scale_of[arm] for arm in batches])
    values = [f["value"] for f in figures.values()]
    values += [figures[a, LAST_BATCH]["value"] - figures[b, LAST_BATCH]["value"] for a, b in pairs]
    samples = [[*sample.values()] for sample in (*taken.values(), *gaps)]
    scales = [scale_of[arm] for arm, _ in figures] + [hypot(scale_of[a], scale_of[b]) for a, b in pairs]
    held = hold(values, samples, spread, published["tolerance"], scales)
    held_out = {arm: _measured(done[done["arm"] == arm], curves, "val_loss") for arm in {arm for arm, _ in figures}}
    bad = runs.loc[runs["status"] != COMPLETED, "arm"].tolist()
    facts = _Facts(held_out, Counter(bad), snapshot["baselines"], published["tolerance"])
    rows = [
        facts.row(arm, "", measure, one, by, taken[arm, measure] if measure != LAST_BATCH else held_out[arm], f["note"])
        for ((arm, measure), f), one, by in zip(figures.items(), held, scales, strict=False)
    ]
    between = [
        facts.row(a, b, LAST_BATCH, one, by, _paired(held_out[a], held_out[b]), "")
        for (a, b), one, by in zip(pairs, held[len(figures) :], scales[len(figures) :], strict=True)
    ]
    known = [row.held.difference for row in rows if row.held.n and row.measure == LAST_BATCH]
    offset = float(np.mean(known)) if known else NAN
    rule = _rule(spread, max(row.scale for row in rows), published)
    return Publication(published["source"], tuple(rows), tuple(between), spread, offset, len(known), rule)


def _rule(spread: Spread, largest: float, declared: Mapping[str, Any]) -> str:
    wider = ""
    if largest > 1:
        wider = (
            f"; more, up to {spread.sd * largest:.3f}, for an arm to which drawing one batch of its windows gives more "
            "than the declared one by itself"
        )
    return (
        f"A figure is one run, read off one batch; it moves by chance with an SD of {spread.sd:.3f} ({spread.df:.0f} "
        f"degrees of freedom; declared: {declared['sd']:g}, {declared['sd_reason']}{wider}), and a gap with the root "
        f"of its two figures' squares added. It agrees where the difference is shown to lie within "
        f"±{declared['tolerance']:g} ({declared['tolerance_reason']}), by two one-sided t tests at 5 %, each figure "
        "for itself. It differs where it is shown to be no further run of ours, by a t test with Holm's method over "
        "all figures and gaps. Where both are shown it agrees: there is a difference, and it is too small to matter."
    )


def common_reasons(rows: Sequence[Row]) -> dict[str, Outcome]:
    """The `why` that two of `rows` or more share, to be said once, each with their outcome."""
    counts = Counter(row.why for row in rows if row.why)
    return {row.why: row.held.outcome for row in rows if counts[row.why] > 1}


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
    tolerance: float

    def row(
        self, arm: str, against: str, measure: str, held: Held, by: float, on_text: Mapping[int, float], note: str
    ) -> Row:
        values = [*on_text.values()]
        mean = float(np.mean(values)) if values else NAN
        arms = (arm, against) if against else (arm,)
        bad = sum(self.diverged.get(name, 0) for name in arms)
        lost = f"{bad} of the runs diverged and are not in the mean." if bad else ""
        why = self._why(held, mean, bool(against)) if held.n else self._nothing(arms)
        if not held.n and bad and not all(self.held_out[name] for name in arms):
            why = ""  # what there is has diverged
        many = len(values) >= FEWEST_SEEDS
        interval = mean_interval(values, 0.95) if many else Interval(NAN, NAN, 0.95)
        error = sd_of(values) / len(values) ** 0.5 if many else NAN
        told = " ".join(filter(None, (lost, why)))
        return Row(arm, against, measure, held, by, mean, len(values), interval, error, bad, note, told)

    def _nothing(self, arms: Sequence[str]) -> str:
        if not all(self.held_out[name] for name in arms):
            return "Nothing is recorded yet."
        return "No run has this measure." if len(arms) == 1 else "No seed has this measure of both."

    def _why(self, held: Held, mean: float, gap: bool) -> str:
        if held.outcome is Outcome.AGREES:
            return ""
        floor, moves = self.floors.get("unigram", NAN), "the gap of two single runs" if gap else "a single run"
        if held.outcome is Outcome.OPEN and abs(held.difference) > held.half95:
            return (
                "Taken alone the difference is larger than the ± given beside ours; corrected for all that was "
                "published, that is open."
            )
        if held.outcome is Outcome.OPEN:
            return (
                f"By chance {moves} lies anywhere within the ± given beside ours, too far to tell a difference or to "
                f"show one below {self.tolerance:g}; no number of seeds takes it below {(1 + 1 / held.n) ** -0.5:.2f} "
                "of that."
            )
        if not gap and mean >= floor - NEAR and held.figure < floor - NEAR:
            return (
                f"A model that ignores its input scores {floor:.3f} or more on our held-out text. The figure lies "
                f"{floor - held.figure:.3f} below that: another text, a model that used its input, or the luck of one "
                "batch."
            )
        return (
            f"By chance {moves}, read off one batch, stays within the ± given beside ours; what was published does not."
        )


def _counted(noun: str, rows: Sequence[Row]) -> str:
    counts = {outcome: sum(row.held.outcome is outcome for row in rows) for outcome in Outcome}
    return (
        f"Of {len(rows)} {noun}{'s' * (len(rows) != 1)} {counts[Outcome.AGREES]} agree, {counts[Outcome.DIFFERS]} "
        f"differ{'s' * (counts[Outcome.DIFFERS] == 1)} and {counts[Outcome.OPEN]} cannot be told."
    )
