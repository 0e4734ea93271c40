"""How many seeds: power of the paired t-test and of two one-sided tests (TOST), and the smallest n that reaches it.

Everything depends on the SD of the per-seed differences. That SD is itself an estimate, so a plan is a range: from the
observed SD to its upper 80 % bound (planning with the SD of three pilot seeds gives 4 to 31 seeds where 15 is right).
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import optimize, special

SEEDS_CAP = 10_000  # stands for itself and for every larger number
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_TAIL = 1e-12  # probability left out at each end of the SD's distribution


def difference_power(n: int, sd: float, difference: float, alpha: float = 0.05) -> float:
    """Chance that a two-sided paired t-test at `alpha` on `n` pairs rejects 0 when the truth is `difference`."""
    df, shift = n - 1, abs(difference) / sd * n**0.5
    critical = special.stdtrit(df, 1 - alpha / 2)
    below = np.nan_to_num(special.nctdtr(df, shift, [critical, -critical]))  # SciPy gives NaN for some vanishing tails
    return float(1 - below[0] + below[1])


def equivalence_power(n: int, sd: float, margin: float, alpha: float = 0.05, truth: float = 0.0) -> float:
    """Chance that TOST, each side at `alpha`, on `n` pairs declares |difference| < `margin` when it is `truth`.

    Exact: given the sample SD s, equivalence is declared when the mean lies within margin - t s / sqrt(n), a normal
    probability; integrated over the chi distribution of s / sd by Gauss-Legendre quadrature.
    """
    df = n - 1
    critical = special.stdtrit(df, 1 - alpha)
    half, shift = margin / sd * n**0.5, truth / sd * n**0.5
    ends = np.sqrt(special.chdtri(df, [1 - _TAIL, _TAIL]) / df)
    low, high = ends[0], min(ends[1], half / critical)  # beyond half / critical nothing is ever declared
    if low >= high:
        return 0.0
    s = low + (high - low) * (_NODES + 1) / 2
    reach = half - critical * s
    log_density = df / 2 * np.log(df / 2) + np.log(2) - special.gammaln(df / 2) + df * np.log(s) - np.log(s)
    density = np.exp(log_density - df * s**2 / 2)
    declared = special.ndtr(reach - shift) - special.ndtr(-reach - shift)
    return float(_WEIGHTS @ (density * declared) * (high - low) / 2)


@lru_cache(maxsize=256)
def _detectable_in_sd(n: int, alpha: float, power: float) -> float:
    ample = (4 * special.stdtrit(n - 1, 1 - alpha / 2) + 10) / n**0.5
    return float(optimize.brentq(lambda d: difference_power(n, 1.0, d, alpha) - power, 0.0, ample))


def detectable_difference(n: int, sd: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """The true difference that `n` >= 2 pairs detect with chance `power`, in the unit of `sd` (SD of differences)."""
    return sd * _detectable_in_sd(n, alpha, power)


def seeds_for_difference(difference: float, sd: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Fewest pairs whose two-sided paired t-test detects `difference` with chance `power`; at most SEEDS_CAP."""
    z = special.ndtri(1 - alpha / 2) + special.ndtri(power)
    return _fewest(lambda n: difference_power(n, sd, difference, alpha) >= power, z * sd / abs(difference))


def seeds_for_equivalence(margin: float, sd: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Fewest pairs whose TOST declares equivalence with chance `power` at no difference; at most SEEDS_CAP."""
    z = special.ndtri(1 - alpha) + special.ndtri((1 + power) / 2)
    return _fewest(lambda n: equivalence_power(n, sd, margin, alpha) >= power, z * sd / margin)


def sd_upper_bound(sd: float, n: int, confidence: float = 0.8) -> float:
    """One-sided upper bound of the SD behind a sample SD of `n` normal values (chi-square)."""
    return float(sd * ((n - 1) / special.chdtri(n - 1, confidence)) ** 0.5)


def seeds_needed(sd: float, n: int, margin: float, alpha: float = 0.05, power: float = 0.8) -> tuple[int, int]:
    """Total seeds per arm, (low, high), that decide with chance `power` whichever way the truth lies.

    "Decide" is both: a true difference of one margin is detected, and no difference at all is declared equivalent.
    `low` believes the observed `sd` of `n` >= 2 pairs, `high` its upper 80 % bound. For m arms give alpha / m. Never
    below n + 1: seeds that are there already did not decide. SEEDS_CAP means that or more.
    """
    assert margin > 0, f"no plan from margin = {margin}"

    def enough(sigma: float) -> int:
        both = seeds_for_difference(margin, sigma, alpha, power), seeds_for_equivalence(margin, sigma, alpha, power)
        return max(both)

    return _totals(enough, sd, n)


def seeds_as_measured(sd: float, n: int, difference: float, alpha: float = 0.05, power: float = 0.8) -> tuple[int, int]:
    """Total seeds per arm, (low, high), that detect a true `difference` of the size that `n` pairs measured; otherwise
    as `seeds_needed`. A measured difference that was picked for its size is too large, and so is this plan too short.
    """
    assert difference != 0, "no number of seeds detects no difference"
    return _totals(lambda sigma: seeds_for_difference(difference, sigma, alpha, power), sd, n)


def _totals(enough: Callable[[float], int], sd: float, n: int) -> tuple[int, int]:
    """What is `enough` by the observed `sd` of `n` pairs and by its upper bound, within what can be."""
    assert n >= 2, f"no SD to plan from with n = {n}"
    assert sd > 0, f"no plan from sd = {sd}"
    low, high = (min(max(enough(sigma), n + 1, 3), SEEDS_CAP) for sigma in (sd, sd_upper_bound(sd, n)))
    return low, high


def _fewest(enough: Callable[[int], bool], root: float) -> int:
    """The smallest n with `enough(n)`, monotone in n; root² is its normal approximation, a few short of the answer."""
    if not root**2 < SEEDS_CAP:
        return SEEDS_CAP
    n = max(2, int(root**2))
    while n > 2 and enough(n - 1):
        n -= 1
    while n < SEEDS_CAP and not enough(n):
        n += 1
    return n
