"""Cells for nine arms against a shared baseline, and for plans made from pilots."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from types import MappingProxyType

import numpy as np
from numpy.random import Generator
from scipy import special

from analysis.power import difference_power, equivalence_power, seeds_needed
from analysis.verdict import ALPHA, holm_shaffer
from rates.bars import Cell, Outcomes
from rates.batch import paired
from rates.scenarios import Array

ARMS = 9
NOISY: Mapping[str, list[int]] = MappingProxyType({"no arm": [], "one arm": [1], "the baseline": [0]})
# From losses [R, arms + 1, N], baseline first, in units of the margin to the adjusted p-values of difference and of
# equivalence, both [R, arms].
FamilyTest = Callable[[Array], tuple[Array, Array]]


def holm_test(losses: Array) -> tuple[Array, Array]:
    """As `compare` does: each arm's own paired t, adjusted by `verdict.holm_shaffer`."""
    each = [paired(losses[:, arm], losses[:, 0]) for arm in range(1, losses.shape[1])]
    return adjusted(np.array([[found.p(), found.equivalence_p(1.0)] for found in each]).transpose(2, 1, 0))


def pooled_test(losses: Array) -> tuple[Array, Array]:
    """The same with one variance for all arms, as in an analysis of variance."""
    differences = losses[:, 1:] - losses[:, :1]
    arms, n = differences.shape[1:]
    error = (differences.var(2, ddof=1).mean(1, keepdims=True) / n) ** 0.5
    df, size = arms * (n - 1), np.abs(differences.mean(2))
    return adjusted(np.stack([2 * special.stdtr(df, -size / error), special.stdtr(df, (size - 1) / error)], 1))


def adjusted(raw: Array) -> tuple[Array, Array]:
    """From p-values [R, 2, arms]."""
    both = np.array([holm_shaffer(*p) for p in raw])
    return both[:, 0], both[:, 1]


def family(
    test: FamilyTest = holm_test, noisy: Sequence[str] = tuple(NOISY), seeds: Sequence[int] = (3, 5, 10)
) -> dict[str, Cell]:
    """One false rejection or more. Losses of a seed correlate with 0.5, a noisy arm has three times the SD."""
    truths: dict[str, Array] = {"all at 0": np.zeros(ARMS), "all at the margin": np.ones(ARMS)}
    truths["every other at the margin"] = np.resize([0.0, 1.0], ARMS)

    def cell(truth: Array, sds: Array, n: int) -> Cell:
        def simulate(rng: Generator, studies: int) -> Outcomes:
            own, of_seed = rng.standard_normal((studies, ARMS + 1, n)), rng.standard_normal((studies, 1, n))
            losses = sds[:, None] * 0.5**0.5 * (own + of_seed)
            losses[:, 1:] += truth[:, None]
            p_difference, p_equivalence = test(losses)
            return {"": np.where(truth == 1, p_equivalence, p_difference).min(1) < ALPHA}

        return simulate

    cells = {}
    for (name, truth), which, margin, n in product(truths.items(), noisy, (1.0, 4.0), seeds):
        sds = np.full(ARMS + 1, 1 / margin)
        sds[NOISY[which]] *= 3
        cells[f"{name}, noisy: {which}, margin {margin:g} SD, n = {n}"] = cell(truth, sds, n)
    return cells


def planned_power(
    end: int = 1, pilots: Sequence[int] = (3, 5, 10), margins: Sequence[float] = (0.25, 0.5, 1.0)
) -> dict[str, Cell]:
    """Power of a study with as many seeds as `seeds_needed` says after a pilot, by its lower (`end` 0) or upper number.

    Exact for each pilot: of the paired t-test at a true difference of one margin, of equivalence at no difference.
    """

    def cell(pilot: int, margin: float) -> Cell:
        def simulate(rng: Generator, studies: int) -> Outcomes:
            sds = rng.standard_normal((studies, pilot)).std(1, ddof=1)
            seeds, which = np.unique([seeds_needed(sd, pilot, margin)[end] for sd in sds], return_inverse=True)
            detects = np.array([difference_power(n, 1.0, margin) for n in seeds.tolist()])
            declares = np.array([equivalence_power(n, 1.0, margin) for n in seeds.tolist()])
            return {"a true difference": detects[which], "equivalence": declares[which]}

        return simulate

    return {
        f"pilot of {pilot}, margin {margin:g} SD of the difference": cell(pilot, margin)
        for pilot, margin in product(pilots, margins)
    }
