"""Whether losses are too neat to be measurements: ties that rounding does not explain, differences that stand still."""

from math import pi

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.intervals import sd_of

SHIFT = 0.05  # SD of the differences below this share of an arm's own SD: on healthy pairs (rho <= 0.8) under 1 %
CHANCE = 1e-6  # ties that rounding gives less often than this have another cause
_CLOSE = 0.5  # SD of the differences of a healthy pair, in SDs of an arm: a correlation of 0.875
_STEPS = sorted([*(10.0**-k for k in range(9)), *(2.0**-k for k in range(1, 27))], reverse=True)


def grain(values: ArrayLike) -> float:
    """What `values` were rounded to: the largest power of ten or of two that divides all, or the spacing of doubles.

    >>> grain([4.152, 4.17]), grain([4.25, 4.125])
    (0.001, 0.125)
    """
    x = np.asarray(values, dtype=float)
    for step in _STEPS:
        ratio = x / step
        if (np.abs(ratio - np.rint(ratio)) < 1e-6).all():
            return step
    return float(np.spacing(np.abs(x).max()))


def spread(values: ArrayLike) -> float:
    """The SD of an arm's losses; of a single one a thousandth of it, for want of better."""
    x = np.asarray(values, dtype=float)
    return sd_of(x) if len(x) > 1 else 1e-3 * float(np.abs(x).max())


def tied_by_chance(ties: ArrayLike, seeds: ArrayLike, step: ArrayLike, sd: ArrayLike) -> NDArray[np.float64]:
    """The chance of this many `ties` or more on so many `seeds` when arms of this `sd` are rounded to `step`.

    At most, since the arms count as equal in the mean and as correlated at 0.875. Without any spread a tie is no
    chance.
    """
    at = np.asarray(sd, dtype=float)
    with np.errstate(divide="ignore"):
        once = np.where(at > 0, np.asarray(step, dtype=float) / (_CLOSE * at * (2 * pi) ** 0.5), 0.0)
    at_least = np.asarray(ties, dtype=float) - 1
    return np.asarray(special.bdtrc(at_least, np.asarray(seeds, dtype=int), np.minimum(once, 1.0)))


def shifted(a: ArrayLike, b: ArrayLike) -> NDArray[np.bool_]:
    """Whether `a` is `b` plus a constant, or nearly so: losses of the same three seeds or more on the last axis."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    sd = np.minimum(x.std(-1, ddof=1), y.std(-1, ddof=1))
    return np.asarray((x - y).std(-1, ddof=1) < SHIFT * sd)
