"""Intervals for a mean, an SD and the difference of two arms, paired or not: arrays in, a named result out.

Every interval is NaN, never an exception, where the data cannot carry one (fewer than two values, or no variance at
all): a NaN is not a decision, and ``verdict`` treats it so.
"""

from dataclasses import dataclass, replace
from math import isnan

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

NAN = float("nan")
ROUNDING = 1e-9  # an SD below this share of the values is rounding, not variation


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, made by a procedure that covers the truth in a share `confidence` of studies."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Difference:
    """Arm minus baseline, with a t distribution of `df` degrees of freedom; `p_value` is two-sided against 0.

    Paired: `n` pairs and the SD of the per-pair differences. Unpaired: `n` is the smaller number of runs, `sd` that of
    the difference of two single runs, and there is no correlation. `df` is NaN where nothing can be tested.
    """

    n: int
    mean: float
    sd: float
    standard_error: float
    df: float
    p_value: float
    interval95: Interval
    interval90: Interval
    correlation: float
    paired: bool = True


def mean_interval(x: ArrayLike, confidence: float) -> Interval:
    """Student's t interval for the mean of `x` [n]; covers at exactly `confidence` when the values are normal."""
    values = np.asarray(x, dtype=float)
    if len(values) < 2:
        return Interval(NAN, NAN, confidence)
    half = special.stdtrit(len(values) - 1, (1 + confidence) / 2) * values.std(ddof=1) / len(values) ** 0.5
    return Interval(float(values.mean() - half), float(values.mean() + half), confidence)


def sd_interval(x: ArrayLike, confidence: float) -> Interval:
    """Chi-square interval for the SD behind `x` [n]; exact when the values are normal, and only then (kurtosis)."""
    values = np.asarray(x, dtype=float)
    df = len(values) - 1
    if df < 1:
        return Interval(NAN, NAN, confidence)
    # chdtri inverts the upper tail: the large quantile of chi-square gives the low end of the SD.
    low, high = np.sqrt(df / special.chdtri(df, [(1 - confidence) / 2, (1 + confidence) / 2])) * values.std(ddof=1)
    return Interval(float(low), float(high), confidence)


def sd_of(x: ArrayLike) -> float:
    """Sample SD (n - 1), exactly 0 for equal values; NaN for fewer than two."""
    values = np.asarray(x, dtype=float)
    if len(values) < 2:
        return NAN
    return float(values.std(ddof=1)) if np.ptp(values) else 0.0


def no_variation(x: ArrayLike, scale: float) -> bool:
    """Whether two or more values differ by no more than rounding at magnitude `scale`."""
    return sd_of(x) <= ROUNDING * scale


def paired_difference(arm: ArrayLike, baseline: ArrayLike) -> Difference:
    """The paired t-test (as `scipy.stats.ttest_rel`) and its intervals for `arm` - `baseline`, both [n], same order.

    Differences that do not vary beyond rounding leave p and intervals NaN: such data are not a measurement, and the
    t statistic would call them infinitely significant. The correlation needs three pairs.
    """
    a, b = np.asarray(arm, dtype=float), np.asarray(baseline, dtype=float)
    assert a.shape == b.shape == (len(a),), f"pairs need equal lengths, got {a.shape} and {b.shape}"
    n, d = len(a), a - b
    scale = float(np.abs([a, b]).max()) if n else 0.0
    df = n - 1.0 if n >= 2 and not no_variation(d, scale) else NAN
    varied = n >= 3 and not no_variation(a, scale) and not no_variation(b, scale)
    correlation = float(np.corrcoef(a, b)[0, 1]) if varied else NAN
    mean, sd = float(d.mean()) if n else NAN, sd_of(d)
    return _tested(n, mean, sd, sd / n**0.5 if n else NAN, df, correlation, paired=True)


def welch_difference(arm: ArrayLike, baseline: ArrayLike) -> Difference:
    """Welch's t-test and its intervals for `arm` - `baseline`, which may have different lengths.

    As `scipy.stats.ttest_ind` without equal variances, which warns about an arm whose values are equal. Two runs are
    needed in each arm, and variation beyond rounding in at least one, or p and intervals are NaN.
    """
    a, b = np.asarray(arm, dtype=float), np.asarray(baseline, dtype=float)
    n, mean, sd, error, df = min(len(a), len(b)), NAN, NAN, NAN, NAN
    if n:
        mean, scale = float(a.mean() - b.mean()), float(max(np.abs(a).max(), np.abs(b).max()))
        sd_a, sd_b = sd_of(a), sd_of(b)
        sd, error_a, error_b = (sd_a**2 + sd_b**2) ** 0.5, sd_a**2 / len(a), sd_b**2 / len(b)
        error = (error_a + error_b) ** 0.5
    if n >= 2 and not (no_variation(a, scale) and no_variation(b, scale)):
        df = (error_a + error_b) ** 2 / (error_a**2 / (len(a) - 1) + error_b**2 / (len(b) - 1))
    return _tested(n, mean, sd, error, df, NAN, paired=False)


def t_interval(difference: Difference, alpha: float) -> Interval:
    """The interval of confidence 1 - `alpha`: it leaves out 0 exactly when the two-sided p is below `alpha`.

    Unbounded at `alpha` = 0, NaN where the difference could not be tested.
    """
    half = abs(special.stdtrit(difference.df, alpha / 2)) * difference.standard_error
    return Interval(float(difference.mean - half), float(difference.mean + half), 1 - alpha)


def _tested(n: int, mean: float, sd: float, error: float, df: float, correlation: float, *, paired: bool) -> Difference:
    p = NAN if isnan(df) else float(2 * special.stdtr(df, -abs(mean) / error))
    unknown = Interval(NAN, NAN, 0.95)
    made = Difference(n, mean, sd, error, df, p, unknown, unknown, correlation, paired)
    return replace(made, interval95=t_interval(made, 0.05), interval90=t_interval(made, 0.10))
