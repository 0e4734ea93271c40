"""How small a p-value must be at each of several declared looks, so that all looks together err in a share alpha.

The error is spent over the looks (Lan & DeMets 1983, Biometrika 70:659), by each look in proportion to its seeds
(rho = 1 of Kim & DeMets 1987, Biometrika 74:149). For Student's t of normal values whose mean is 0, exact at every n,
and whatever the SD: what a t statistic does from look to look does not depend on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.verdict import FEWEST_SEEDS

DRAWS = 50_000
_LEVELS = np.logspace(-5, 0, 101)  # the error rates that thresholds are tabulated at
_BINS = 500
_STREAM = 8_311


@dataclass(frozen=True, eq=False)
class Spending:
    """Thresholds for a t-test's two-sided p at looks with `counts` pairs, of whatever alpha.

    By a look the part `fractions` of alpha may be spent, and `shares` is what the look adds: nothing where no pair is
    new or fewer than three are there, which leaves it to the next. `table` holds the p at or below which a look
    rejects, [looks, _LEVELS of alpha].
    """

    counts: tuple[int, ...]
    fractions: tuple[float, ...]
    shares: tuple[float, ...]
    table: NDArray[np.float64]

    def thresholds(self, alpha: float) -> tuple[float, ...]:
        """The p at or below which each look rejects, 0 where it cannot; Bonferroni's for an alpha below the table."""
        assert 0 < alpha <= 1, f"an error rate lies above 0 and up to 1, got {alpha}"
        if alpha < _LEVELS[0]:
            return tuple(alpha * share for share in self.shares)
        rows = zip(self.shares, self.table, strict=True)
        return tuple(exp(np.interp(log(alpha), np.log(_LEVELS), np.log(row))) if share else 0.0 for share, row in rows)

    def repeated_p(self, p_values: Sequence[float]) -> float:
        """The smallest alpha at which one of the looks so far rejects, at most 1; a NaN never rejects."""
        return float(self.repeated(p_values))

    def repeated(self, p_JN: ArrayLike) -> NDArray[np.float64]:
        """`repeated_p` of many studies, from p-values [looks so far, ...] to [...].

        Without a difference it is a or less, at any look, in a share a of studies at most; for every a.
        """
        p = np.asarray(p_JN, dtype=float)
        smallest = np.ones(p.shape[1:])
        for at, share, row in zip(p, self.shares, self.table, strict=False):
            if share:
                with np.errstate(divide="ignore"):
                    level = np.exp(np.interp(np.log(at), np.log(row), np.log(_LEVELS)))
                smallest = np.fmin(smallest, np.where(at < row[0], np.minimum(at / share, _LEVELS[0]), level))
        return smallest


def calibrate(
    counts: Sequence[int], fractions: Sequence[float], generator: np.random.Generator, draws: int = DRAWS
) -> Spending:
    """Thresholds by Monte Carlo with `draws` studies a look; the first look that can reject needs none.

    A look spends P(p <= threshold, and no look before has rejected). Studies are drawn given their p at this look, for
    p of every size alike, so that the threshold of a small alpha is as precise as that of a large one: 0.3 % of itself.
    """
    made = _NO_LOOK
    for count, fraction in zip(counts, fractions, strict=True):
        made = _with_look(made, count, fraction, generator, draws)
    return made


@lru_cache(maxsize=4096)
def spending(counts: tuple[int, ...], fractions: tuple[float, ...]) -> Spending:
    """`calibrate` with a fixed stream for each look, so that one look more leaves the thresholds before it alone."""
    if not counts:
        return _NO_LOOK
    before = spending(counts[:-1], fractions[:-1])
    return _with_look(before, counts[-1], fractions[-1], np.random.default_rng([_STREAM, len(counts)]), DRAWS)


_NO_LOOK = Spending((), (), (), np.empty((0, len(_LEVELS))))


def _with_look(before: Spending, count: int, fraction: float, generator: np.random.Generator, draws: int) -> Spending:
    most = max(before.counts, default=0)
    assert max(before.fractions, default=0) < fraction <= 1, f"fractions increase up to 1, not to {fraction}"
    assert count >= most, f"pairs do not get fewer, as {before.counts}, {count}"
    share = fraction - sum(before.shares)
    earlier = [look for look, spent in enumerate(before.shares) if spent]
    if count < FEWEST_SEEDS or count == most:
        share, row = 0.0, np.zeros_like(_LEVELS)
    elif not earlier:
        row = share * _LEVELS
    else:
        edges = np.geomspace(share * _LEVELS[0] / 10, 1, _BINS + 1)  # of p at this look
        going_BL = 1 - _stopped(before, earlier, count, (edges[1:] + edges[:-1]) / 2, generator, draws // _BINS)
        spent_BL = np.cumsum(np.vstack([edges[0] * going_BL[:1], np.diff(edges)[:, None] * going_BL]), axis=0)
        row = np.array([np.interp(share * level, at, edges) for level, at in zip(_LEVELS, spent_BL.T, strict=True)])
    return Spending(
        (*before.counts, count), (*before.fractions, fraction), (*before.shares, share), np.vstack([before.table, row])
    )


def _stopped(
    before: Spending,
    earlier: Sequence[int],
    count: int,
    p_B: NDArray[np.float64],
    generator: np.random.Generator,
    draws: int,
) -> NDArray[np.float64]:
    """The share of `draws` studies, given `p_B` at `count` pairs, that an `earlier` look rejected: [B, _LEVELS]."""
    sizes, levels = [before.counts[look] for look in earlier], len(_LEVELS)
    first_BD = np.full((len(p_B), draws), levels)  # the smallest level at which a look rejects
    for t_BD, n, look in zip(_paths(p_B, [*sizes, count], draws, generator), sizes, earlier, strict=True):
        critical = special.stdtrit(n - 1, before.table[look] / 2)
        np.minimum(first_BD, np.searchsorted(critical, -t_BD), out=first_BD)
    counted_BL = [np.bincount(first_D, minlength=levels + 1)[:levels] for first_D in first_BD]
    return np.asarray(np.cumsum(counted_BL, axis=1) / draws)


def _paths(
    p_B: NDArray[np.float64], counts: Sequence[int], draws: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """|t| at all `counts` but the last, in normal studies without a difference, given p at the last: [looks, B, draws].

    n values with a given t have a direction u (1, ..., 1) / sqrt(n) + sqrt(1 - u^2) e, where u = t / sqrt(t^2 + n - 1)
    and e is uniform on the unit sphere of the contrasts. Only sums and sums of squares between looks are drawn.
    """
    *earlier, n = counts
    sizes = np.diff([0, *counts])[:, None, None]
    sums = np.sqrt(sizes) * generator.standard_normal((len(sizes), len(p_B), draws))
    squares = sums**2 / sizes + 2 * generator.standard_gamma((sizes - 1) / 2, sums.shape)
    sums, squares = np.cumsum(sums, axis=0), np.cumsum(squares, axis=0)
    m, mean = np.array(earlier)[:, None, None], sums[-1] / n
    norm = squares[-1] - n * mean**2
    sum_e = (sums[:-1] - m * mean) / np.sqrt(norm)
    square_e = (squares[:-1] - 2 * mean * sums[:-1] + m * mean**2) / norm
    # Both parts of the direction are divided by sqrt(1 - u^2), which no t statistic sees.
    t_B1 = special.stdtrit(n - 1, p_B / 2)[:, None]
    total = m / np.sqrt(n * (n - 1)) * t_B1 + sum_e
    return np.asarray(np.abs(total) / np.sqrt(m * (square_e - sum_e**2 / m) / (m - 1)))
