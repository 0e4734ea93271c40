"""Cells for studies that are looked at while seeds are added, up to 20 pairs."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from analysis.sequential import LOOKS, spending
from analysis.verdict import ALPHA
from rates.bars import Cell, Outcomes
from rates.batch import Flags, prefixes, running_log_e
from rates.scenarios import Array, Scenario

MOST = 20
EVERY = tuple(range(3, MOST + 1))
SCHEDULES = (LOOKS, EVERY, (3, 20), (10, 20), (5, 10, 15, 20), (3, 4, 5, 6), (3, 8), (5, 10))
# From per-pair differences [R, N] and the pairs at each look to where a look claims something, [L, R].
Looker = Callable[[Array, Sequence[int]], Flags]
EquivalenceLooker = Callable[[Array, Sequence[int], float], Flags]


def spend_claims(d_RN: Array, counts: Sequence[int]) -> Flags:
    """`sequential.spend`: the repeated interval leaves out 0."""
    thresholds = _thresholds(counts, ALPHA)
    return np.array([found.p() <= p for found, p in zip(prefixes(d_RN, counts), thresholds, strict=True)])


def naive_claims(d_RN: Array, counts: Sequence[int]) -> Flags:
    """A t-test at 5 % at every look."""
    return np.array([found.excludes() for found in prefixes(d_RN, counts)])


def e_claims(d_RN: Array, counts: Sequence[int]) -> Flags:
    """`sequential.open_ended`: the confidence sequence leaves out 0."""
    log_e = running_log_e(d_RN)
    return np.array([log_e[:, n - 1] >= np.log(1 / ALPHA) for n in counts])


def spend_equivalent(d_RN: Array, counts: Sequence[int], margin: float) -> Flags:
    """`sequential.spend`: at this look both sides of the margin are rejected, one-sided at 5 % over all looks."""
    looks = zip(prefixes(d_RN, counts), _thresholds(counts, 2 * ALPHA), strict=True)
    return np.array([np.all([2 * p_R <= limit for p_R in found.outside_p(margin)], axis=0) for found, limit in looks])


def naive_equivalent(d_RN: Array, counts: Sequence[int], margin: float) -> Flags:
    return np.array([found.within(margin) for found in prefixes(d_RN, counts)])


def _thresholds(counts: Sequence[int], alpha: float) -> tuple[float, ...]:
    return spending(tuple(counts), tuple(n / counts[-1] for n in counts)).thresholds(alpha)


def false_differences(
    scenarios: Sequence[Scenario], schedules: Sequence[Sequence[int]] = SCHEDULES, looker: Looker = spend_claims
) -> dict[str, Cell]:
    """A difference is claimed at some look although there is none."""

    def cell(scenario: Scenario, rho: float) -> Cell:
        def simulate(rng: Generator, studies: int) -> Outcomes:
            arm, baseline = scenario.draw(rng, studies, MOST, rho)
            return {_named(counts): np.any(looker(arm - baseline, counts), axis=0) for counts in schedules}

        return simulate

    return {
        f"{scenario.name}, rho {rho:g}": cell(scenario, rho) for scenario, rho in product(scenarios, (-0.5, 0, 0.7))
    }


def false_equivalents(
    scenarios: Sequence[Scenario],
    schedules: Sequence[Sequence[int]] = SCHEDULES,
    equivalent: EquivalenceLooker = spend_equivalent,
) -> dict[str, Cell]:
    """The true difference is the margin, to either side, and equivalence is declared at some look."""

    def cell(scenario: Scenario, rho: float) -> Cell:
        def simulate(rng: Generator, studies: int) -> Outcomes:
            arm, baseline = scenario.draw(rng, studies, MOST, rho)
            return {
                f"margin {margin:g} SD, truth {side:+d} margin, {_named(counts)}": np.any(
                    equivalent(arm - baseline + side * margin, counts, margin), axis=0
                )
                for counts, margin, side in product(schedules, (1.0, 2.0, 8.0), (1, -1))
            }

        return simulate

    return {f"{scenario.name}, rho {rho:g}": cell(scenario, rho) for scenario, rho in product(scenarios, (0, 0.7))}


def found_by(looker: Looker, counts: Sequence[int] = LOOKS) -> tuple[dict[str, Cell], dict[str, Cell]]:
    """How often a true difference of one SD of the differences is found, and the mean pairs until then or the end."""

    def simulate(rng: Generator, studies: int) -> tuple[Flags, NDArray[np.intp]]:
        claims = looker(rng.normal(1.0, 1.0, (studies, MOST)), counts)
        found = np.any(claims, axis=0)
        return found, np.where(found, np.array(counts)[claims.argmax(0)], counts[-1])

    name = f"normal, {_named(counts)}"
    return (
        {name: lambda rng, studies: {"": simulate(rng, studies)[0]}},
        {name: lambda rng, studies: {"": simulate(rng, studies)[1]}},
    )


def _named(counts: Sequence[int]) -> str:
    if tuple(counts) == EVERY:
        return f"looks {counts[0]}..{counts[-1]}"
    return f"looks {', '.join(map(str, counts))}"
