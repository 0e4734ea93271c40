"""Intervals for a mean, an SD and a paired difference: arrays in, a named result out.

Every interval is NaN, never an exception, where the data cannot carry one (fewer than two values, or no variance at
all): a NaN is not a decision, and ``verdict`` treats it so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special, stats

NAN = float("nan")
ROUNDING = 1e-9  # an SD below this share of the values is rounding, not variation


@dataclass(frozen=True)
class Interval:
    """From `low` to `high`, made by a procedure that covers the truth in a share `confidence` of studies."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class PairedDifference:
    """Arm minus baseline over `n` pairs; `sd` is that of the per-pair differences, `p_value` two-sided against 0."""

    n: int
    mean: float
    sd: float
    p_value: float
    interval95: Interval
    interval90: Interval
    correlation: float

    @property
    def standard_error(self) -> float:
        """Of the mean difference; NaN where there is no SD."""
        return self.sd / self.n**0.5 if self.n else NAN


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


def paired_difference(arm: ArrayLike, baseline: ArrayLike) -> PairedDifference:
    """The paired t-test (`scipy.stats.ttest_rel`) and its intervals for `arm` - `baseline`, both [n], same order.

    Differences that do not vary beyond rounding leave p and intervals NaN: such data are not a measurement, and the
    t statistic would call them infinitely significant. The correlation needs three pairs.
    """
    a, b = np.asarray(arm, dtype=float), np.asarray(baseline, dtype=float)
    assert a.shape == b.shape == (len(a),), f"pairs need equal lengths, got {a.shape} and {b.shape}"
    n, d = len(a), a - b
    mean = float(d.mean()) if n else NAN
    p, interval95, interval90 = NAN, Interval(NAN, NAN, 0.95), Interval(NAN, NAN, 0.90)
    scale = float(np.abs([a, b]).max()) if n else 0.0
    if n >= 2 and not no_variation(d, scale):
        p = float(stats.ttest_rel(a, b).pvalue)
        interval95, interval90 = mean_interval(d, 0.95), mean_interval(d, 0.90)
    varied = n >= 3 and not no_variation(a, scale) and not no_variation(b, scale)
    correlation = float(np.corrcoef(a, b)[0, 1]) if varied else NAN
    return PairedDifference(n, mean, sd_of(d), p, interval95, interval90, correlation)
