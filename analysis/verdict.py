"""The rule that turns a comparison into one of six labels, fixed before any data, and the words for it.

Two hypotheses per arm: D, the true difference from the baseline is 0 (paired t, two-sided), and E, it is at least the
margin in size (two one-sided tests; Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657). Rejecting D says better or
worse, rejecting E says equivalent. A loss is compared: lower is better.
"""

from enum import StrEnum
from math import floor, isfinite, log10

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.intervals import NAN, Interval, PairedDifference
from analysis.power import SEEDS_CAP

ALPHA = 0.05
FEWEST_SEEDS = 3


class Verdict(StrEnum):
    """Of an arm against the baseline; UNDECIDED is an answer too: neither hypothesis could be rejected."""

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    BETTER_WITHIN_MARGIN = "better but within margin"
    WORSE_WITHIN_MARGIN = "worse but within margin"
    UNDECIDED = "undecided"


def equivalence_p(pair: PairedDifference, margin: float) -> float:
    """The larger p of the two one-sided t-tests of |difference| >= `margin`; NaN where the pair's own p is.

    Below 0.05 exactly when the 90 % interval lies inside (-margin, margin).
    """
    assert margin > 0, f"a margin is positive, got {margin}"
    if not isfinite(pair.p_value):
        return NAN
    return float(special.stdtr(pair.n - 1, (abs(pair.mean) - margin) / pair.standard_error))


def holm_shaffer(p_difference: ArrayLike, p_equivalence: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Adjusted p-values of D and E, each [m], for one family of m arms; family-wise error is kept at any truth.

    Holm's step-down with Shaffer's (1986, JASA 81:826) multiplier: the most hypotheses that can still be true together.
    An arm's D and E exclude each other, so that is the number of arms not yet rejected twice, m at first instead of 2m.
    A NaN counts in the family as p = 1 and stays NaN.
    """
    raw = np.column_stack([p_difference, p_equivalence]).astype(float)
    p = np.nan_to_num(raw, nan=1.0).ravel()
    adjusted, largest = np.empty_like(p), 0.0
    unrejected = np.full(len(raw), 2)
    for i in np.argsort(p, kind="stable"):
        largest = max(largest, min(1.0, p[i] * np.count_nonzero(unrejected)))
        adjusted[i] = largest
        unrejected[i // 2] -= 1
    adjusted[np.isnan(raw.ravel())] = NAN
    return adjusted[0::2], adjusted[1::2]


def decide(n: int, difference: float, p_difference: float, p_equivalence: float) -> Verdict:
    """The verdict from adjusted p-values at 5 %. Fewer than three pairs, or a NaN, never decide."""
    if n < FEWEST_SEEDS:
        return Verdict.UNDECIDED
    within = p_equivalence < ALPHA
    if p_difference < ALPHA:
        if difference < 0:
            return Verdict.BETTER_WITHIN_MARGIN if within else Verdict.BETTER
        return Verdict.WORSE_WITHIN_MARGIN if within else Verdict.WORSE
    return Verdict.EQUIVALENT if within else Verdict.UNDECIDED


def decimals(standard_error: float) -> int:
    """Decimal places that a number with this standard error deserves: one digit of the error, two if it leads with 1-2.

    >>> decimals(0.0084), decimals(0.02), decimals(3.0)
    (3, 3, 0)
    """
    if not isfinite(standard_error) or standard_error <= 0:
        return 4
    return max(0, -floor(log10(standard_error) - log10(3) + 1e-9))


def seeds_text(seeds: tuple[int, int]) -> str:
    """A range of seeds in words: "20", "14 to 22", "4205 to more than 10,000"."""
    low, high = (f"{n}" if n < SEEDS_CAP else f"more than {SEEDS_CAP:,}" for n in seeds)
    return low if low == high else f"{low} to {high}"


def sentence(
    verdict: Verdict,
    pair: PairedDifference,
    names: tuple[str, str],
    unit: str,
    margin: float,
    seeds: tuple[int, int] | None = None,
    because: str = "",
) -> str:
    """One verdict in plain English; numbers are rounded by the standard error and carry `unit`.

    `names` are the arm's and the baseline's. `because` replaces the usual reason for an undecided verdict.
    """
    arm, baseline = names
    places, sample = decimals(pair.standard_error), f"{pair.n} paired seeds"
    if verdict is Verdict.UNDECIDED:
        return f"{arm} against {baseline} is undecided: {because or _undecided(pair, unit, margin, seeds)}"
    if verdict is Verdict.EQUIVALENT:
        small = ""
        if pair.p_value < ALPHA:
            small = " Taken alone the difference is not zero either; corrected for the other comparisons that is open."
        return (
            f"{arm} and {baseline} are equivalent: the difference lies within the margin of ±{margin:g} {unit} "
            f"({_number(pair.mean, places, '+')}, {_interval(pair.interval90, places)}, {sample}).{small}"
        )
    # Said as a size and a direction, so the interval takes the direction's sign.
    i = pair.interval95
    interval = i if pair.mean > 0 else Interval(-i.high, -i.low, i.confidence)
    within = verdict in (Verdict.BETTER_WITHIN_MARGIN, Verdict.WORSE_WITHIN_MARGIN)
    tail = f"; that is within the margin of ±{margin:g}, too little to matter" if within else ""
    return (
        f"{arm} is {verdict.value.split()[0]} than {baseline} by {_number(abs(pair.mean), places)} {unit} "
        f"({_interval(interval, places)}, {sample}){tail}."
    )


def _undecided(pair: PairedDifference, unit: str, margin: float, seeds: tuple[int, int] | None) -> str:
    if pair.n < FEWEST_SEEDS:
        there = {0: "no paired seed is", 1: "1 paired seed is"}.get(pair.n, f"{pair.n} paired seeds are")
        return f"{there} there, and a verdict needs at least {FEWEST_SEEDS}."
    places = decimals(pair.standard_error)
    corrected = ""
    if pair.p_value < ALPHA or equivalence_p(pair, margin) < ALPHA:
        corrected = " Taken alone this would decide; corrected for the study's other comparisons it does not."
    plan = f" About {seeds_text(seeds)} seeds per arm would decide with 80 % power." if seeds else ""
    return (
        f"the difference is {_number(pair.mean, places, '+')} {unit} ({_interval(pair.interval95, places)}, "
        f"{pair.n} paired seeds), the margin ±{margin:g}.{corrected}{plan}"
    )


def _interval(interval: Interval, places: int) -> str:
    low, high = (_number(end, places) for end in (interval.low, interval.high))
    return f"{100 * interval.confidence:.0f} % interval {low} to {high}"


def _number(value: float, places: int, sign: str = "") -> str:
    """With a true minus sign; what rounds to nothing is 0 without a sign of its own."""
    rounded = round(value, places)
    return f"{rounded:{sign if rounded else ''}.{places}f}".replace("-", "−" if rounded else "")
