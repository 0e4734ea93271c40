"""What a table says of one arm against the baseline, before anything is corrected for the other arms.

The design decides the procedure, never the data: pairs by seed where a seed means the same data in every arm (valid
at any correlation), Welch's test where runs are independent, one arm's mean against a fixed number; a fixed number of
seeds, declared looks whose error is spent, or looks that nobody declared.
"""

from dataclasses import dataclass, replace
from functools import partial

from scipy import stats

from analysis.design import FIXED, UNTIL_DECIDED
from analysis.guards import too_neat
from analysis.intervals import NAN, Difference, no_variation, paired_difference, welch_difference
from analysis.sequential import Look, Path, open_ended, spend
from analysis.table import Table
from analysis.verdict import equivalence_p


@dataclass(frozen=True)
class Evidence:
    """`sample` says in words of what; `differences` are per pair, empty where nothing is paired.

    `neat` marks losses that cannot be independent measurements; their p-values are NaN, for a number would read as
    evidence.
    """

    difference: Difference
    p_difference: float
    p_equivalence: float
    differences: tuple[float, ...]
    n_arm: int
    n_baseline: int
    sample: str
    neat: bool
    looks: tuple[Look, ...] = ()


def gather(table: Table, arm: str) -> Evidence:
    """The evidence about `arm`."""
    if table.target is not None:
        return _against_target(table, arm)
    if not table.snapshot["paired"]:
        return _unpaired(table, arm)
    if table.snapshot["design"]["kind"] == FIXED:
        return _paired(table, arm)
    return _looked_at(table, arm)


def _paired(table: Table, arm: str, first: int | None = None) -> Evidence:
    ours, theirs = table.sample(arm, first)
    differences = tuple(a - b for a, b in zip(ours, theirs, strict=True))
    found, neat = paired_difference(ours, theirs), too_neat(ours, theirs)
    if neat:
        found = replace(found, p_value=NAN)
    p_equivalence = equivalence_p(found, table.snapshot["margin"])
    n = found.n
    return Evidence(found, found.p_value, p_equivalence, differences, n, n, f"{n} paired seeds", neat)


def _unpaired(table: Table, arm: str) -> Evidence:
    ours, theirs = table.sample(arm)
    found = welch_difference(ours, theirs)
    neat = any(len(losses) > 1 and no_variation(losses, max(map(abs, losses))) for losses in (ours, theirs))
    if neat:
        found = replace(found, p_value=NAN)
    sample, p_equivalence = f"{len(ours)} and {len(theirs)} runs", equivalence_p(found, table.snapshot["margin"])
    return Evidence(found, found.p_value, p_equivalence, (), len(ours), len(theirs), sample, neat)


def _against_target(table: Table, arm: str) -> Evidence:
    """One-sided, towards the side that the mean lies on: each of the two claims has the error rate alpha to itself."""
    ours, targets = table.sample(arm)
    found = replace(paired_difference(ours, targets), correlation=NAN, paired=False)
    side = "less" if found.mean < 0 else "greater"
    p = NAN
    if found.p_value == found.p_value:
        p = float(stats.ttest_1samp(ours, targets[0], alternative=side).pvalue)
    n = len(ours)
    return Evidence(replace(found, p_value=p), p, NAN, (), n, 0, f"{n} runs", neat=False)


def _looked_at(table: Table, arm: str) -> Evidence:
    """At the last look whose runs are all recorded; before the first one, what is there, without a p-value."""
    taken, design, margin = table.looks_taken(arm), table.snapshot["design"], table.snapshot["margin"]
    last = _paired(table, arm, taken[-1] if taken else None)
    if not taken or last.neat:
        return replace(last, p_difference=NAN, p_equivalence=NAN)
    by_look = [_paired(table, arm, look).differences for look in taken]
    follow = partial(spend, most=design["looks"][-1]) if design["kind"] == UNTIL_DECIDED else open_ended
    path: Path = follow(by_look, taken, margin=NAN if margin is None else margin)
    now = path.looks[-1]
    found = replace(last.difference, p_value=path.p_difference, interval95=now.interval95, interval90=now.interval90)
    looks = f"{len(taken)} look" + "s" * (len(taken) > 1)
    return replace(
        last,
        difference=found,
        p_difference=path.p_difference,
        p_equivalence=path.p_equivalence,
        sample=f"{last.sample}, {looks}",
        looks=path.looks,
    )
