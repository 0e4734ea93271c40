"""The rule that turns a comparison into one of six labels, fixed before any data, and the words for it.

Two hypotheses per arm: D, the true difference from the baseline is 0 (a two-sided t test), and E, it is at least the
margin in size (two one-sided tests; Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657). Rejecting D says better or
worse, rejecting E says equivalent. A loss is compared: lower is better.
"""

from enum import StrEnum
from math import floor, isfinite, log10

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.intervals import NAN, Difference, Interval
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

    @property
    def told_apart(self) -> bool:
        """Whether a difference was shown, of whatever size."""
        return self not in (Verdict.EQUIVALENT, Verdict.UNDECIDED)


def equivalence_p(difference: Difference, margin: float | None) -> float:
    """The larger p of the two one-sided t-tests of |difference| >= `margin`; NaN where the difference's own p is, and
    without a margin.

    Below 0.05 exactly when the 90 % interval lies inside (-margin, margin).
    """
    assert margin is None or margin > 0, f"a margin is positive, got {margin}"
    if margin is None or not isfinite(difference.p_value):
        return NAN
    return float(special.stdtr(difference.df, (abs(difference.mean) - margin) / difference.standard_error))


def holm_shaffer(p_difference: ArrayLike, p_equivalence: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Adjusted p-values of D and E, each [m], for one family of m arms; family-wise error is kept at any truth.

    Holm's step-down with Shaffer's (1986, JASA 81:826) multiplier: the most hypotheses that can still be true together.
    An arm's D and E exclude each other, so that is the number of arms not yet rejected twice, m at first instead of 2m.
    A NaN counts in the family as p = 1 and stays NaN.
    """
    raw = np.column_stack([p_difference, p_equivalence]).astype(float)
    adjusted = _step_down(raw)
    return adjusted[:, 0], adjusted[:, 1]


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Holm's (1979, Scand. J. Stat. 6:65) adjusted p-values [m], for arms with one hypothesis each; NaN as above."""
    return _step_down(np.asarray(p, dtype=float).reshape(-1, 1))[:, 0]


def _step_down(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjusted p-values of `raw` [arms, hypotheses], those of an arm excluding each other."""
    hypotheses = raw.shape[1]
    p = np.nan_to_num(raw, nan=1.0).ravel()
    adjusted, largest = np.empty_like(p), 0.0
    unrejected, arms = np.full(len(raw), hypotheses), len(raw)
    for i in np.argsort(p, kind="stable"):
        largest = max(largest, min(1.0, p[i] * arms))
        adjusted[i] = largest
        unrejected[i // hypotheses] -= 1
        arms -= not unrejected[i // hypotheses]
    adjusted[np.isnan(raw.ravel())] = NAN
    return adjusted.reshape(raw.shape)


def decide(n: int, difference: float, p_difference: float, p_equivalence: float, alpha: float = ALPHA) -> Verdict:
    """The verdict from adjusted p-values at `alpha`. Fewer than three seeds, or a NaN, never decide."""
    if n < FEWEST_SEEDS:
        return Verdict.UNDECIDED
    within = p_equivalence < alpha
    if p_difference < alpha:
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
    """A range of seeds in words: "20", "14 to 22", "4,205 to more than 10,000"."""
    low, high = (f"{n:,}" if n < SEEDS_CAP else f"more than {SEEDS_CAP:,}" for n in seeds)
    return low if low == high else f"{low} to {high}"


def sentence(
    verdict: Verdict,
    difference: Difference,
    names: tuple[str, str],
    unit: str,
    margin: float | None,
    sample: str,
    p_equivalence: float = NAN,
    seeds: tuple[int, int] | None = None,
    because: str = "",
    alpha: float = ALPHA,
    seeds_as_measured: tuple[int, int] | None = None,
) -> str:
    """One verdict in plain English; numbers are rounded by the standard error and carry `unit`.

    `names` are the arm's and the baseline's, `sample` says of what, such as "10 paired seeds". `because` replaces the
    usual reason for an undecided verdict. p-values are the arm's alone. `seeds` decide whatever the truth,
    `seeds_as_measured` where it is what was measured.
    """
    arm, baseline = names
    error = difference.standard_error
    if verdict is Verdict.UNDECIDED:
        plan = _plan(seeds, seeds_as_measured)
        why = because or _undecided(difference, unit, margin, sample, p_equivalence, plan, alpha)
        return f"{arm} against {baseline} is undecided: {why}"
    if verdict is Verdict.EQUIVALENT:
        small = ""
        if difference.p_value < ALPHA:
            small = " Taken alone the difference is not zero either; corrected for the other comparisons that is open."
        interval = interval_text(difference.interval90, error)
        return (
            f"{arm} and {baseline} are equivalent: the difference lies within the margin of "
            f"{_of(f'±{margin:g}', unit)} ({number_text(difference.mean, error, '+')}, {interval}, {sample}).{small}"
        )
    # Said as a size and a direction, so the interval takes the direction's sign.
    i = difference.interval95
    towards = i if difference.mean > 0 else Interval(-i.high, -i.low, i.confidence)
    within = verdict in (Verdict.BETTER_WITHIN_MARGIN, Verdict.WORSE_WITHIN_MARGIN)
    tail = f"; that is within the margin of ±{margin:g}, too little to matter" if within else ""
    return (
        f"{arm} is {verdict.value.split()[0]} than {baseline} by {_of(number_text(abs(difference.mean), error), unit)} "
        f"({interval_text(towards, error)}, {sample}){tail}."
    )


def _undecided(
    difference: Difference,
    unit: str,
    margin: float | None,
    sample: str,
    p_equivalence: float,
    plan: str,
    alpha: float,
) -> str:
    if difference.n < FEWEST_SEEDS:
        kind = "paired seed" if difference.paired else "run"
        there = {0: f"no {kind} is", 1: f"1 {kind} is"}.get(difference.n, f"{difference.n} {kind}s are")
        each = "" if difference.paired else " of each"
        return f"{there} there, and a verdict needs at least {FEWEST_SEEDS}{each}."
    error = difference.standard_error
    corrected = ""
    if difference.p_value < alpha or p_equivalence < alpha:
        corrected = " Taken alone this would decide; corrected for the study's other comparisons it does not."
    allowed = "" if margin is None else f", the margin ±{margin:g}"
    return (
        f"the difference is {_of(number_text(difference.mean, error, '+'), unit)} "
        f"({interval_text(difference.interval95, error)}, {sample}){allowed}.{corrected}{plan}"
    )


def _plan(seeds: tuple[int, int] | None, as_measured: tuple[int, int] | None) -> str:
    """How many seeds would decide, begun with a space; empty without a plan."""
    if not seeds:
        return ""
    shorter = f"; if it is as large as measured, {seeds_text(as_measured)}" if as_measured else ""
    return (
        f" About {seeds_text(seeds)} seeds per arm in all would decide with 80 % power even if the true difference is "
        f"only the margin, or none{shorter}."
    )


def _of(number: str, unit: str) -> str:
    return f"{number} {unit}" if unit else number


def interval_text(interval: Interval, standard_error: float) -> str:
    """``95 % interval 0.036 to 0.051``, rounded by the standard error."""
    low, high = (number_text(end, standard_error) for end in (interval.low, interval.high))
    return f"{100 * interval.confidence:.0f} % interval {low} to {high}"


def number_text(value: float, standard_error: float, sign: str = "") -> str:
    """Rounded by its standard error, with a true minus sign; what rounds to nothing is 0 without a sign of its own."""
    places = decimals(standard_error)
    rounded = round(value, places)
    return f"{rounded:{sign if rounded else ''}.{places}f}".replace("-", "−" if rounded else "")
