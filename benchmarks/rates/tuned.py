"""Cells for arms tuned on the same grid: judged with fresh seeds at each arm's selected point, and the usable range."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.random import Generator

from analysis.tuning import BEST_ON_GRID
from rates.bars import Cell, Outcomes
from rates.batch import Differences, Flags, compatible_rates, paired, selected, spread, usable_ranges
from rates.scenarios import RESPONSES, Array, Response, draw_grid

TUNING = 3  # seeds at each point of the grid


@dataclass(frozen=True)
class Judged:
    """Studies after the fresh seeds: what they found, and the true differences that a sentence may be about."""

    found: Differences
    selected_R: Array
    best: float
    spread_R: Array  # SD over seeds within a point / sqrt(tuning seeds)


# Whether a study says something false.
Claim = Callable[[Judged], Flags]


def about_the_selected(judged: Judged) -> Flags:
    return judged.found.excludes(judged.selected_R)


def about_the_best(judged: Judged) -> Flags:
    return judged.found.excludes(judged.best)


def about_the_best_widened(judged: Judged) -> Flags:
    reach_R = judged.found.half(0.05) + BEST_ON_GRID * judged.spread_R
    return np.abs(judged.found.mean_R - judged.best) > reach_R


def judge(rng: Generator, studies: int, arms: tuple[Response, Response], judging: int, rho: float, sd: float) -> Judged:
    """The arm's SD is `sd` times the baseline's; the seed makes a share `rho` of the variance."""
    of_seed_RS, of_seed_RN = rng.standard_normal((studies, TUNING)), rng.standard_normal((studies, judging))
    grids, losses, means = [], [], []
    for response, scale in zip(arms, (sd, 1.0), strict=True):
        grid_RSP = draw_grid(rng, response, of_seed_RS, rho, scale)
        at_R = selected(grid_RSP)
        own_RN = rng.standard_normal(of_seed_RN.shape)
        loss_RN = response.means_P[at_R, None] + scale * (rho**0.5 * of_seed_RN + (1 - rho) ** 0.5 * own_RN)
        lost_RN = rng.random(loss_RN.shape) < response.diverging_P[at_R, None]
        grids.append(grid_RSP)
        losses.append(np.where(lost_RN, np.nan, loss_RN))
        means.append(response.means_P[at_R])
    found = paired(losses[0], losses[1]).only(compatible_rates(losses[0], losses[1]))
    spread_R = np.fmax(*map(spread, grids)) / TUNING**0.5
    return Judged(found, means[0] - means[1], arms[0].best - arms[1].best, spread_R)


def best_of_tuned(claim: Claim, judging: int, responses: Sequence[Response] = RESPONSES) -> dict[str, Cell]:
    """Every pair of responses, tuned with three seeds at each point and judged with `judging` fresh ones."""

    def cell(arms: tuple[Response, Response], rho: float, sd: float) -> Cell:
        return lambda rng, studies: {"": claim(judge(rng, studies, arms, judging, rho, sd))}

    return {
        f"{arms[0].name} against {arms[1].name}, SD {sd:g}:1, rho {rho:g}": cell(arms, rho, sd)
        for arms, rho, sd in product(product(responses, responses), (0.0, 0.7), (1.0, 3.0))
    }


def usable(pairs: Sequence[tuple[Response, Response]], seeds: Sequence[int], covered: bool = False) -> dict[str, Cell]:
    """Where the 95 % interval of the usable range leaves out (`covered`: holds) the true difference.

    Losses have an SD of 0.02 or 0.1 nats, the cap is 1 nat; a seed makes half of the variance.
    """

    def cell(arms: tuple[Response, Response], n: int, cap: float) -> Cell:
        truth = arms[0].excess(cap) - arms[1].excess(cap)

        def simulate(rng: Generator, studies: int) -> Outcomes:
            of_seed_RS = rng.standard_normal((studies, n))
            ours, theirs = (draw_grid(rng, response, of_seed_RS, 0.5) for response in arms)
            return {"": usable_ranges(ours, theirs, cap).excludes(truth) ^ covered}

        return simulate

    return {
        f"{arms[0].name} against {arms[1].name}, SD {sd:g} nats, n = {n}": cell(arms, n, 1 / sd)
        for arms, sd, n in product(pairs, (0.02, 0.1), seeds)
    }
