"""The procedures of `analysis` for many studies at once; a test holds each of them to the function it stands for.

Shapes as in `scenarios`: R studies, N seeds, L looks, S tuning seeds, P points.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.guards import divergence
from analysis.intervals import ROUNDING
from analysis.robustness import mean_excess
from analysis.sequential import MIXTURE
from analysis.verdict import ALPHA, FEWEST_SEEDS
from rates.scenarios import Array

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Differences:
    """`intervals.Difference` of R studies: arm minus baseline; `df_R` is NaN where too few seeds are there."""

    mean_R: Array
    error_R: Array
    df_R: Array

    def half(self, alpha: float) -> Array:
        """Half the width of the interval of confidence 1 - alpha."""
        df = self.df_R[:1] if (self.df_R == self.df_R[0]).all() else self.df_R
        return special.stdtrit(df, 1 - alpha / 2) * self.error_R

    def p(self) -> Array:
        """Two-sided p-values of the hypothesis of no difference."""
        return 2 * special.stdtr(self.df_R, -np.abs(self.mean_R) / self.error_R)

    def outside_p(self, margin: float) -> tuple[Array, Array]:
        """One-sided p-values of a difference of at least `margin`, and of at most -`margin`."""
        high, low = ((side * self.mean_R - margin) / self.error_R for side in (1, -1))
        return special.stdtr(self.df_R, high), special.stdtr(self.df_R, low)

    def equivalence_p(self, margin: float) -> Array:
        """`verdict.equivalence_p`."""
        return np.maximum(*self.outside_p(margin))

    def excludes(self, truth: float | Array = 0.0) -> Flags:
        """Where the 95 % interval leaves out `truth`."""
        return np.abs(self.mean_R - truth) > self.half(ALPHA)

    def within(self, margin: float) -> Flags:
        """Where the 90 % interval lies inside the margin."""
        return np.abs(self.mean_R) + self.half(2 * ALPHA) < margin

    def only(self, where_R: Flags) -> "Differences":
        """Without a decision where not `where_R`."""
        return replace(self, df_R=np.where(where_R, self.df_R, np.nan))


def paired(arm_RN: Array, baseline_RN: Array) -> Differences:
    """`intervals.paired_difference`; a pair with a loss that is not finite is dropped."""
    d_RN = arm_RN - baseline_RN
    there_RN = np.isfinite(d_RN)
    n_R = there_RN.sum(1)
    mean_R = np.where(there_RN, d_RN, 0).sum(1) / np.maximum(n_R, 1)
    squares_R = (np.where(there_RN, d_RN - mean_R[:, None], 0) ** 2).sum(1)
    decides_R = n_R >= FEWEST_SEEDS
    df_R = np.where(decides_R, n_R - 1.0, np.nan)
    return Differences(mean_R, (squares_R / df_R / np.maximum(n_R, 1)) ** 0.5, df_R)


def welch(arm_RN: Array, baseline_RN: Array) -> Differences:
    """`intervals.welch_difference` of finite losses."""
    parts = [x_RN.var(1, ddof=1) / x_RN.shape[1] for x_RN in (arm_RN, baseline_RN)]
    df_R = sum(parts) ** 2 / sum(
        part**2 / (x.shape[1] - 1) for part, x in zip(parts, (arm_RN, baseline_RN), strict=True)
    )
    return Differences(arm_RN.mean(1) - baseline_RN.mean(1), sum(parts) ** 0.5, df_R)


def compatible_rates(arm_RN: Array, baseline_RN: Array) -> Flags:
    """Where `guards.divergence` lets the losses decide; a run that diverged has a loss that is not finite."""
    n = arm_RN.shape[1]
    lost = np.column_stack([(~np.isfinite(x)).sum(1) for x in (arm_RN, baseline_RN)])
    if not lost.any():
        return np.ones(len(lost), dtype=bool)
    kinds, which = np.unique(lost, axis=0, return_inverse=True)
    return np.array([_compatible(i, j, n) for i, j in kinds.tolist()])[which]


@cache
def _compatible(arm: int, baseline: int, n: int) -> bool:
    return not divergence({"arm": (arm, n - arm), "baseline": (baseline, n - baseline)})[1]


def prefixes(d_RN: Array, counts: Sequence[int]) -> list[Differences]:
    """Of the first pairs of each study, for every count of pairs."""
    zeros = np.zeros_like(d_RN)
    return [paired(d_RN[:, :n], zeros[:, :n]) for n in counts]


def running_log_e(d_RN: Array, g: float = MIXTURE) -> Array:
    """`sequential.log_e` after every pair."""
    n = np.arange(1, d_RN.shape[1] + 1)
    sum_RN, squares_RN = d_RN.cumsum(1), (d_RN**2).cumsum(1)
    whole_RN = (n + g) * squares_RN
    return 0.5 * np.log(g / (n + g)) + n / 2 * np.log(whole_RN / (whole_RN - sum_RN**2))


def selected(grid_RSP: Array) -> NDArray[np.intp]:
    """`tuning.select` of each study: fewest diverged runs, then the lowest mean of the others."""
    there = np.isfinite(grid_RSP)
    counts_RP = there.sum(1)
    means_RP = np.where(there, grid_RSP, 0).sum(1) / np.maximum(counts_RP, 1)
    fewest_RP = counts_RP == counts_RP.max(1, keepdims=True)
    return np.where(fewest_RP, means_RP, np.inf).argmin(1)


def spread(grid_RSP: Array) -> Array:
    """The SD over seeds within a point that widens a claim about the best on the grid (`tuning`)."""
    there = np.isfinite(grid_RSP)
    counts_RP = there.sum(1)
    means_RP = np.where(there, grid_RSP, 0).sum(1) / np.maximum(counts_RP, 1)
    squares_RP = np.where(there, grid_RSP - means_RP[:, None], 0) ** 2
    known = counts_RP >= 2
    variances_RP = np.where(known, squares_RP.sum(1) / np.maximum(counts_RP - 1, 1), 0)
    return (variances_RP.sum(1) / known.sum(1)) ** 0.5


def usable_ranges(arm_RSP: Array, baseline_RSP: Array, cap: float) -> Differences:
    """`robustness.usable_range`, whose jackknife leaves out one seed after the other."""
    n = arm_RSP.shape[1]
    mean_R = mean_excess(arm_RSP, cap) - mean_excess(baseline_RSP, cap)
    left_SR = np.array(
        [mean_excess(np.delete(arm_RSP, i, 1), cap) - mean_excess(np.delete(baseline_RSP, i, 1), cap) for i in range(n)]
    )
    scale = max(np.abs(x[np.isfinite(x)]).max() for x in (arm_RSP, baseline_RSP))
    varies_R = left_SR.std(0, ddof=1) > ROUNDING * max(scale, cap)
    error_R = np.where(varies_R, (n - 1) ** 0.5 * left_SR.std(0), np.nan)
    return Differences(mean_R, error_R, np.where(varies_R, n - 1.0, np.nan))
