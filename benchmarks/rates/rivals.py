"""What people use today, as functions from the losses of two arms [R, N] to where a difference is claimed at 5 %."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from analysis.verdict import ALPHA
from rates.batch import Flags, paired, welch
from rates.fixed import Method, paired_claims, welch_claims
from rates.scenarios import Array

RESAMPLES = 999
CHUNK = 500  # studies that share their resamples


@dataclass(frozen=True)
class Rival:
    """A method as it is used; `paired` tells whether it takes the losses of a seed together."""

    name: str
    claims: Method
    paired: bool = False


def bootstrap(method: str, pairs: bool) -> Method:
    """Intervals of `scipy.stats.bootstrap`."""

    def excludes_0(arm_RN: Array, baseline_RN: Array) -> Flags:
        data = (arm_RN - baseline_RN,) if pairs else (arm_RN, baseline_RN)
        rng = np.random.default_rng(len(arm_RN))
        interval = stats.bootstrap(
            data, _difference, axis=-1, vectorized=True, n_resamples=RESAMPLES, method=method, rng=rng
        ).confidence_interval
        return (interval.low > 0) | (interval.high < 0)

    return _in_chunks(excludes_0)


def _difference(arm: Array, baseline: Array | None = None, axis: int = -1) -> Array:
    mean = arm.mean(axis)
    return mean if baseline is None else mean - baseline.mean(axis)


def _in_chunks(claims: Method) -> Method:
    def whole(arm_RN: Array, baseline_RN: Array) -> Flags:
        parts = range(0, len(arm_RN), CHUNK)
        return np.concatenate([claims(arm_RN[i : i + CHUNK], baseline_RN[i : i + CHUNK]) for i in parts])

    return whole


def z_bands(pairs: bool) -> Method:
    """Mean ± 1.96 standard errors."""

    def excludes_0(arm_RN: Array, baseline_RN: Array) -> Flags:
        found = paired(arm_RN, baseline_RN) if pairs else welch(arm_RN, baseline_RN)
        return np.abs(found.mean_R) > 1.96 * found.error_R

    return excludes_0


def by_p(test: Callable[..., Any]) -> Method:
    """A test of SciPy's, by its p-value."""
    return lambda arm_RN, baseline_RN: np.asarray(test(arm_RN, baseline_RN, axis=1).pvalue) < ALPHA


def sign_flip(arm_RN: Array, baseline_RN: Array) -> Flags:
    """The permutation test of pairs: all sign patterns up to ten pairs, 1,999 random ones beyond."""
    d_RN = arm_RN - baseline_RN
    n = d_RN.shape[1]
    if n <= 10:
        signs = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    else:
        signs = np.vstack([np.ones(n), np.random.default_rng(n).choice([-1, 1], (1999, n))])
    size_RF = np.abs(d_RN @ signs.T)
    return (size_RF >= size_RF[:, :1] * (1 - 1e-9)).mean(1) < ALPHA


def percentile(pairs: bool) -> Method:
    """What rliable reports."""
    return bootstrap("percentile", pairs)


METHODS = (
    Rival("seedbed: Welch", welch_claims),
    Rival("seedbed: paired t", paired_claims, paired=True),
    Rival("percentile bootstrap", percentile(pairs=False)),
    Rival("percentile bootstrap of pairs", percentile(pairs=True), paired=True),
    Rival("BCa bootstrap", bootstrap("BCa", pairs=False)),
    Rival("BCa bootstrap of pairs", bootstrap("BCa", pairs=True), paired=True),
    Rival("mean ± 1.96 SE", z_bands(pairs=False)),
    Rival("mean ± 1.96 SE of pairs", z_bands(pairs=True), paired=True),
    Rival("Student's t, one SD", by_p(stats.ttest_ind)),
    Rival("Mann-Whitney", by_p(stats.mannwhitneyu)),
    Rival("Wilcoxon signed rank", by_p(stats.wilcoxon), paired=True),
    Rival("sign flips", sign_flip, paired=True),
)
