"""From a study's table of runs to guarded, corrected comparisons with the baseline.

Arms are compared pairwise by seed, because the same seed sees the same batches in every arm; a judged table from
elsewhere may be unpaired, or be held against a fixed number. An arm that fixes a stream of randomness (``streams.*``
among its differences) is described but not compared: its mean belongs to one draw of that stream, so a test would call
the same recipe different. Works at any moment of a study, from no runs at all.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from analysis.alarms import Alarm, alarms
from analysis.evidence import Evidence, gather
from analysis.guards import divergence
from analysis.intervals import NAN, Interval, mean_interval, sd_interval, sd_of, t_interval
from analysis.noise import NoiseSummary, summarise_noise
from analysis.power import seeds_as_measured, seeds_needed
from analysis.sequential import Look
from analysis.table import Dropped, Table
from analysis.tuning import Tuning, setting, summarise_tuning
from analysis.verdict import ALPHA, FEWEST_SEEDS, Verdict, decide, holm, holm_shaffer, sentence

__all__ = ["Alarm", "Analysis", "ArmSummary", "Comparison", "Dropped", "analyse", "verdict_json"]


@dataclass(frozen=True)
class Comparison:
    """An arm against the baseline; `difference` is arm minus baseline, negative is better.

    `n` counts pairs, or the runs of the smaller arm where nothing is paired. Intervals and p-values are this arm's
    alone; the adjusted p-values, and so the verdict, belong to the family of all compared. In a study that was looked
    at more than once they are the repeated ones, valid whenever one stops, and `looks` tells each look. `seeds_needed`
    (low, high) are total seeds per arm that decide with 80 % power even if the true difference is only the margin, or
    none; only when undecided with an SD to plan from. `seeds_as_measured`, where the measured difference exceeds the
    margin, are those that do so if the true one is as large.
    """

    arm: str
    baseline: str
    verdict: Verdict
    n: int
    n_arm: int
    n_baseline: int
    paired: bool
    design: str
    difference: float
    sd: float
    standard_error: float
    interval95: Interval
    interval90: Interval
    p_difference: float
    p_equivalence: float
    p_difference_adjusted: float
    p_equivalence_adjusted: float
    correlation: float
    seeds_needed: tuple[int, int] | None
    seeds_as_measured: tuple[int, int] | None
    looks: tuple[Look, ...]
    dropped: tuple[Dropped, ...]
    diverged_arm: int
    diverged_baseline: int
    sentence: str


@dataclass(frozen=True)
class ArmSummary:
    """Loss over an arm's `n` completed seeds; `diverged` counts runs, `missing` names planned seeds without one."""

    arm: str
    n: int
    mean: float
    sd: float
    interval95: Interval
    sd_interval95: Interval
    diverged: int
    missing: tuple[int, ...]


@dataclass(frozen=True)
class Analysis:
    """All that a report says; `rehearsal` marks results that are no finding, `noise` and `tuning` are None when there
    is nothing to say of them."""

    comparisons: tuple[Comparison, ...]
    arms: tuple[ArmSummary, ...]
    noise: NoiseSummary | None
    tuning: Tuning | None
    alarms: tuple[Alarm, ...]
    rehearsal: bool = False


def analyse(
    runs: pd.DataFrame, snapshot: Mapping[str, Any], noise: bool = True, contrasts: Collection[Comparison] = ()
) -> Analysis:
    """Guard, pair, compare and correct; `noise=False` leaves out the noise summary (for the running verdict).

    `contrasts` are those of the trained models, which alone may show what the task can show. Raises ValueError for
    runs that must not be compared (`guards.refuse_unfair`).
    """
    table = Table.read(runs, snapshot)
    evidence = {arm: gather(table, arm) for arm in table.compared}
    comparisons = compare([(table, arm, found) for arm, found in evidence.items()])
    tuning = summarise_tuning(runs, snapshot, {c.arm: c.interval95 for c in comparisons})
    differences = {arm: found.differences for arm, found in evidence.items()}
    against = () if table.target is not None else map(table.against, evidence or [table.baseline])
    compared = tuple(dict.fromkeys([*against, *evidence]))
    return Analysis(
        comparisons=comparisons,
        arms=tuple(summary(arm["name"], table) for arm in snapshot["arms"]),
        noise=summarise_noise(table.runs, table.losses, differences, snapshot) if noise else None,
        tuning=tuning,
        alarms=alarms(table.losses, compared, snapshot["baselines"], tuning, [c.verdict for c in contrasts]),
        rehearsal=bool(snapshot.get("rehearsal")),
    )


def verdict_json(analysis: Analysis) -> dict[str, Any]:
    """The verdict as data that JSON can hold: NaN and infinities become null, tuples lists."""
    found = {
        "rehearsal": analysis.rehearsal,
        "comparisons": [comparison_json(comparison) for comparison in analysis.comparisons],
        "tuning": asdict(analysis.tuning) if analysis.tuning else None,
        "alarms": [asdict(a) for a in analysis.alarms],
    }
    cleaned: dict[str, Any] = plain(found)
    return cleaned


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """One comparison as named fields, intervals as two of them."""
    fields = asdict(comparison)
    interval95, interval90 = fields.pop("interval95"), fields.pop("interval90")
    fields |= {"ci_low": interval95["low"], "ci_high": interval95["high"]}
    fields |= {"ci90_low": interval90["low"], "ci90_high": interval90["high"]}
    fields["p"] = fields.pop("p_difference")
    return fields


def compare(family: Sequence[tuple[Table, str, Evidence]]) -> tuple[Comparison, ...]:
    """Each arm, in the table that it is of, against what it is compared with there; corrected as one family."""
    p_difference = [found.p_difference for *_, found in family]
    p_equivalence = [found.p_equivalence for *_, found in family]
    if None in [
        table.snapshot["margin"] for table, *_ in family
    ]:  # nothing can be called equivalent: that costs nothing
        adjusted = holm(p_difference), np.full(len(family), NAN)
    else:
        adjusted = holm_shaffer(p_difference, p_equivalence)
    return tuple(
        _comparison(*one, float(p), float(p_e), len(family)) for one, p, p_e in zip(family, *adjusted, strict=True)
    )


def _comparison(table: Table, arm: str, found: Evidence, adjusted: float, adjusted_e: float, family: int) -> Comparison:
    snapshot, baseline, margin = table.snapshot, table.against(arm), table.snapshot["margin"]
    against = (arm,) if table.target is not None else (arm, baseline)
    counts = {name: (table.diverged(name), len(table.losses[name])) for name in against}
    given, because = divergence(counts) if table.target is None else ("", diverged_from_target(*counts[arm]))
    if found.neat and found.difference.n >= FEWEST_SEEDS and not because:
        because = table.neat
    difference, alpha = found.difference, snapshot.get("alpha", ALPHA)
    verdict = Verdict.UNDECIDED
    if not because:
        verdict = decide(difference.n, difference.mean, adjusted, adjusted_e, alpha)
    seeds = as_measured = None
    if verdict is Verdict.UNDECIDED and not because and difference.n >= FEWEST_SEEDS and margin is not None:
        seeds = seeds_needed(difference.sd, difference.n, margin, ALPHA / family)
        if abs(difference.mean) > margin:
            as_measured = seeds_as_measured(difference.sd, difference.n, difference.mean, ALPHA / family)
    if table.target is not None:  # the interval that a one-sided test at alpha agrees with
        difference = replace(difference, interval95=t_interval(difference, 2 * alpha))
    names, p_equivalence = (arm, baseline), found.p_equivalence
    said = (verdict, difference, names, snapshot["unit"], margin, found.sample, p_equivalence)
    words = sentence(*said, seeds, because, alpha, as_measured)
    return Comparison(
        arm=arm,
        baseline=baseline,
        verdict=verdict,
        n=difference.n,
        n_arm=found.n_arm,
        n_baseline=found.n_baseline,
        paired=difference.paired,
        design=snapshot["design"]["kind"],
        difference=difference.mean,
        sd=difference.sd,
        standard_error=difference.standard_error,
        interval95=found.difference.interval95,
        interval90=found.difference.interval90,
        p_difference=found.p_difference,
        p_equivalence=found.p_equivalence,
        p_difference_adjusted=adjusted,
        p_equivalence_adjusted=adjusted_e,
        correlation=difference.correlation,
        seeds_needed=seeds,
        seeds_as_measured=as_measured,
        looks=found.looks,
        dropped=table.dropped(arm),
        diverged_arm=table.diverged(arm),
        diverged_baseline=table.diverged(baseline),
        sentence=table.so_far(arm) + (words if because else _selected(snapshot, against) + given + words),
    )


def too_few(comparisons: Sequence[Comparison], noun: str = "comparison") -> str:
    """One sentence for two comparisons or more of which none has the seeds for a verdict, and that is all there is to
    say of any; else empty."""
    sizes = sorted({c.n for c in comparisons})
    told = any(c.diverged_arm or c.diverged_baseline for c in comparisons)
    if len(comparisons) < 2 or sizes[-1] >= FEWEST_SEEDS or told:
        return ""
    there = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"{sizes[0] or 'no'}"
    kind = ("paired seed" if comparisons[0].paired else "run") + "s" * (sizes[-1] > 1)
    return f"None of {len(comparisons)} {noun}s can be decided: each has {there} {kind} and needs {FEWEST_SEEDS}."


def diverged_from_target(diverged: int, completed: int) -> str:
    """Why a fixed number cannot be held against an arm of which runs diverged: their loss is not in its mean."""
    if not diverged:
        return ""
    return f"{diverged} of {diverged + completed} runs diverged, and the mean of the others is not the arm's."


def _selected(snapshot: Mapping[str, Any], arms: tuple[str, ...]) -> str:
    """Which points of a grid a comparison is about; empty without a grid. A cell has the `points` of all its arms."""
    if snapshot["tuning"] is None:
        return ""
    own = {arm["name"]: arm.get("points", {arm["name"]: arm["selected"]}) for arm in snapshot["arms"]}
    points = {name: point for arm in arms for name, point in own[arm].items()}
    if None in points.values():
        return ""
    named, what = ", ".join(f"{point:g} for {name}" for name, point in points.items()), snapshot["tuning"]["key"]
    return f"At the selected {setting(what)}{'s' * (len(points) > 1)} ({named}): "


def summary(arm: str, table: Table) -> ArmSummary:
    """What the losses of `arm` are, by themselves."""
    values = list(table.losses[arm].values())
    mean = sum(values) / len(values) if values else NAN
    intervals = mean_interval(values, 0.95), sd_interval(values, 0.95)
    return ArmSummary(arm, len(values), mean, sd_of(values), *intervals, table.diverged(arm), table.missing(arm))


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: NaN and infinities become null, tuples lists, a word of an enumeration itself."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, StrEnum):
        return value.value
    return None if isinstance(value, float) and not isfinite(value) else value
