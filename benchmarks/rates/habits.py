"""Cells for what else is done today: one habit each, in a case that shows what it costs."""

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from rates.bars import Cell, Outcomes
from rates.batch import paired, selected, welch
from rates.looks import EVERY, LOOKS, MOST, naive_claims
from rates.many import family, planned_power, pooled_test
from rates.scenarios import NORMAL, RESPONSES, STRESS, Scenario, draw_grid

FLAT, SHARP = (next(r for r in RESPONSES if r.name == name) for name in ("flat", "sharp"))


def peeking(scenario: Scenario, counts: tuple[int, ...]) -> Cell:
    """A paired t-test at 5 % at every look, until it says so."""

    def simulate(rng: Generator, studies: int) -> Outcomes:
        arm, baseline = scenario.draw(rng, studies, MOST)
        return {"": np.any(naive_claims(arm - baseline, counts), axis=0)}

    return simulate


def no_difference(rng: Generator, studies: int) -> Outcomes:
    arm, baseline = NORMAL.draw(rng, studies, 5)
    return {"": ~paired(arm + 1, baseline).excludes()}


def per_seed_minimum(rng: Generator, studies: int) -> Outcomes:
    of_seed_RS = rng.standard_normal((studies, 10))
    lowest = [draw_grid(rng, response, of_seed_RS, 0.5).min(2) for response in (FLAT, SHARP)]
    return {"": paired(lowest[0], lowest[1]).excludes(FLAT.best - SHARP.best)}


def judged_where_tuned(rng: Generator, studies: int) -> Outcomes:
    of_seed_RS = rng.standard_normal((studies, 10))
    grids = [draw_grid(rng, response, of_seed_RS, 0.5) for response in (FLAT, SHARP)]
    chosen = [np.take_along_axis(grid, selected(grid)[:, None, None], 2)[:, :, 0] for grid in grids]
    return {"": paired(chosen[0], chosen[1]).excludes(FLAT.best - SHARP.best)}


def width_per_seed(rng: Generator, studies: int) -> Outcomes:
    of_seed_RS = rng.standard_normal((studies, 10))
    grids = [draw_grid(rng, SHARP, of_seed_RS, 0.5, sd) for sd in (3.0, 1.0)]
    widths = [(grid <= grid.min(2, keepdims=True) + 2).mean(2) for grid in grids]
    return {"": paired(widths[0], widths[1]).excludes()}


def worst_dropped(rng: Generator, studies: int) -> Outcomes:
    arm, baseline = NORMAL.draw(rng, studies, 30)
    return {"": welch(np.sort(arm, axis=1)[:, :27], baseline).excludes()}


def pairing_by_correlation(rng: Generator, studies: int) -> Outcomes:
    arm, baseline = NORMAL.draw(rng, studies, 5)
    centred = [x - x.mean(1, keepdims=True) for x in (arm, baseline)]
    together = (centred[0] * centred[1]).sum(1) > 0
    return {"": np.where(together, paired(arm, baseline).excludes(), welch(arm, baseline).excludes())}


def plan_from_three(rng: Generator, studies: int) -> Outcomes:
    (cell,) = planned_power(end=0, pilots=[3], margins=[0.5]).values()
    return {"": 1 - cell(rng, studies)["a true difference"]}


def welch_of_pairs(rng: Generator, studies: int) -> Outcomes:
    return {"": welch(*NORMAL.draw(rng, studies, 10, -0.5)).excludes()}


HABITS: Mapping[str, Cell] = {
    "t-test after every seed from 3 to 20, until it says so": peeking(NORMAL, EVERY),
    "t-test at 3, 5, 8, 12 and 20 seeds, until it says so": peeking(NORMAL, LOOKS),
    "t-test after every seed from 3 to 20, stress": peeking(STRESS, EVERY),
    "p > 0.05 read as no difference, which is 1 SD; n = 5": no_difference,
    "lowest loss of each seed over a grid, a flat and a sharp response; n = 10": per_seed_minimum,
    "judged on the tuning seeds, a flat and a sharp response; n = 10": judged_where_tuned,
    "width of the range per seed, equal responses, SD 3:1; n = 10": width_per_seed,
    "the worst tenth of one arm dropped as diverged; n = 30": worst_dropped,
    "pairing chosen by the sample's correlation; n = 5": pairing_by_correlation,
    "Welch's test of pairs with correlation -0.5; n = 10": welch_of_pairs,
    "no answer from a study planned for 80 % power by the SD of 3 pilots": plan_from_three,
    "one SD for nine arms of which one is noisy; n = 5": next(
        cell for name, cell in family(pooled_test, ["one arm"], [5]).items() if name.startswith("all at 0")
    ),
}
