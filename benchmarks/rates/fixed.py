"""Cells for two arms and a number of seeds that is fixed beforehand."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.random import Generator

from analysis.neat import shifted
from analysis.verdict import ALPHA
from rates.bars import Cell, Outcomes
from rates.batch import Flags, compatible_rates, paired, welch
from rates.scenarios import NORMAL, RHOS, SEEDS, Array, Scenario

# From the losses of an arm and of the baseline [R, N] to where a difference is claimed.
Method = Callable[[Array, Array], Flags]

MARGINS = (0.5, 1.0, 2.0, 8.0)  # in SD of the baseline
TRUTHS = (0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 3.0, -3.0)  # in margins


def welch_claims(arm_RN: Array, baseline_RN: Array) -> Flags:
    return welch(arm_RN, baseline_RN).excludes()


def paired_claims(arm_RN: Array, baseline_RN: Array) -> Flags:
    """Given convergence, and only where the rates of divergence are compatible."""
    return paired(arm_RN, baseline_RN).only(compatible_rates(arm_RN, baseline_RN)).excludes()


def at_truth_0(
    scenarios: Sequence[Scenario],
    seeds: Sequence[int] = SEEDS,
    rhos: Sequence[float] = RHOS,
    unpaired_method: Method | None = welch_claims,
    paired_method: Method | None = paired_claims,
    covered: bool = False,
) -> dict[str, Cell]:
    """Where a difference is claimed although there is none; with `covered`, where the interval holds the truth."""

    def cell(scenario: Scenario, n: int, rho: float, method: Method) -> Cell:
        return lambda rng, studies: {"": method(*scenario.draw(rng, studies, n, rho)) ^ covered}

    cells = {}
    for scenario, n in product(scenarios, seeds):
        if unpaired_method:
            cells[f"{scenario.name}, unpaired, n = {n}"] = cell(scenario, n, 0.0, unpaired_method)
        if paired_method:
            for rho in rhos:
                cells[f"{scenario.name}, rho {rho:g}, n = {n}"] = cell(scenario, n, rho, paired_method)
    return cells


def false_verdicts(
    scenarios: Sequence[Scenario],
    seeds: Sequence[int] = SEEDS,
    rhos: Sequence[float] = RHOS,
    margins: Sequence[float] = MARGINS,
    levels: tuple[float, float] = (ALPHA, ALPHA),
) -> dict[str, Cell]:
    """Every truth from 0 to 3 margins, to either side: a direction that is wrong, or "within" where it is not.

    `levels` are those of the test of no difference and of each of the two one-sided tests of equivalence.
    """

    def cell(scenario: Scenario, n: int, rho: float | None) -> Cell:
        def simulate(rng: Generator, studies: int) -> Outcomes:
            arm, baseline = scenario.draw(rng, studies, n, rho or 0.0)
            found = welch(arm, baseline) if rho is None else paired(arm, baseline)
            halves = found.half(levels[0]), found.half(2 * levels[1])
            return {
                f"margin {margin:g} SD, truth {truth:g} margins": _false(found.mean_R, *halves, margin, truth * margin)
                for margin, truth in product(margins, TRUTHS)
            }

        return simulate

    kinds: dict[str, float | None] = {"unpaired": None} | {f"rho {rho:g}": rho for rho in rhos}
    return {
        f"{scenario.name}, {kind}, n = {n}": cell(scenario, n, rho)
        for scenario, n, (kind, rho) in product(scenarios, seeds, kinds.items())
    }


def _false(centred_R: Array, half95_R: Array, half90_R: Array, margin: float, truth: float) -> Flags:
    """Where the verdict is false when the true difference is `truth`; `centred_R` are differences from it."""
    mean_R = centred_R + truth
    wrong_R = (np.abs(mean_R) > half95_R) & (np.sign(mean_R) != np.sign(truth))
    return wrong_R | (np.abs(mean_R) + half90_R < margin) if abs(truth) >= margin else wrong_R


def equivalence(n: int) -> dict[str, Cell]:
    """Pairs with correlation 0.7, no true difference, a margin of one SD of an arm."""
    return {
        f"normal, rho 0.7, n = {n}": lambda rng, studies: {
            "": paired(*NORMAL.draw(rng, studies, n, 0.7)).within(1.0),
        }
    }


def shift_alarms(scenarios: Sequence[Scenario], seeds: Sequence[int]) -> dict[str, Cell]:
    """Where two healthy arms are taken for one shifted by a constant."""

    def cell(scenario: Scenario, n: int, rho: float) -> Cell:
        return lambda rng, studies: {"": shifted(*scenario.draw(rng, studies, n, rho))}

    rhos = [rho for rho in (*RHOS, 0.8) if rho <= 0.8]
    return {
        f"{scenario.name}, rho {rho:g}, n = {n}": cell(scenario, n, rho)
        for scenario, n, rho in product(scenarios, seeds, rhos)
    }
