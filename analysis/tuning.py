"""A grid of one hyperparameter, the same for every arm: the point each arm is judged at, and how wide it can be chosen.

Two answers that must not be mixed. The best-of-tuned comparison is made on fresh seeds at the selected points, since
the lowest of several noisy means is too low by itself. The usable range is asked of the grid's own runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.design import TUNE, reference
from analysis.intervals import NAN, Interval, sd_of
from analysis.records import COMPLETED
from analysis.robustness import UsableRange, usable_range
from analysis.verdict import ALPHA, holm, interval_text, number_text

# By so many SD / sqrt(tuning seeds) a claim about the best on the grid widens an interval on both sides. Selecting errs
# by an amount that more judged seeds do not lessen: with 0.5 such claims err in 6, 17 and 36 % with 5, 20 and 200 of
# them over the responses of benchmarks/rates, with 2 in at most 6 %.
BEST_ON_GRID = 2.0
HALF_AN_OCTAVE = 2**0.5  # points further apart than by this factor leave a range between them that nobody tried
FEWEST_RANGE_SEEDS = 5  # with three, equal ranges are told apart in up to 30 % (docs/benchmarks/calibration.md)


@dataclass(frozen=True)
class PointSummary:
    """An arm at one point of the grid: mean and SD over `n` completed seeds, and how many diverged."""

    point: float
    n: int
    mean: float
    sd: float
    diverged: int


@dataclass(frozen=True)
class ArmTuning:
    """An arm on the grid; `selected` is None while a run is missing, `at_edge` that a better point may lie beyond."""

    arm: str
    points: tuple[PointSummary, ...]
    selected: float | None
    at_edge: bool


@dataclass(frozen=True)
class RangeComparison:
    """The usable range of an arm against the baseline's; `p_adjusted` belongs to the family of all compared arms.

    `widened95` is the 95 % interval of the judged difference as a claim about the best of the grid rather than about
    the selected points; NaN without a judged difference.
    """

    arm: str
    baseline: str
    range: UsableRange
    p_adjusted: float
    widened95: Interval
    sentence: str


@dataclass(frozen=True)
class Tuning:
    """The grid `points` of the setting `key`, with `seeds` tuning seeds at each point for every arm."""

    key: str
    points: tuple[float, ...]
    seeds: int
    arms: tuple[ArmTuning, ...]
    ranges: tuple[RangeComparison, ...]

    @property
    def setting(self) -> str:
        """The key in words: ``learning rate`` for ``optimizer.learning_rate``."""
        return setting(self.key)


def setting(key: str) -> str:
    """``learning rate`` for ``optimizer.learning_rate``."""
    return key.rpartition(".")[2].replace("_", " ")


def select(arm_SP: ArrayLike) -> int | None:
    """The index of the point with the lowest mean over seeds; losses [seeds, points], inf where a run diverged.

    A point with a diverged run is not selected unless every point has one; then the one with fewest, and of these the
    one with the lowest mean of the others, so the first when all runs diverged. None while a run is missing (NaN).
    """
    losses = np.asarray(arm_SP, dtype=float)
    if not losses.size or np.isnan(losses).any():
        return None
    finite = np.isfinite(losses)
    counts = finite.sum(0)
    means = np.where(finite, losses, 0).sum(0) / np.maximum(counts, 1)
    order = np.lexsort((means, -counts))
    return int(order[0])


def selections(runs: pd.DataFrame, snapshot: Mapping[str, Any]) -> dict[str, float] | None:
    """The selected point of every arm; None while a tuning run is missing."""
    points = snapshot["tuning"]["points"]
    chosen = {arm["name"]: select(grid) for arm, grid in _grids(runs, snapshot)}
    found = {arm: float(points[index]) for arm, index in chosen.items() if index is not None}
    return found if len(found) == len(chosen) else None


def summarise_tuning(
    runs: pd.DataFrame, snapshot: Mapping[str, Any], judged95: Mapping[str, Interval]
) -> Tuning | None:
    """What the grid's runs say, None without a grid; `judged95` are the compared arms' intervals from judged seeds."""
    tuning = snapshot["tuning"]
    if tuning is None:
        return None
    grids = {arm["name"]: grid for arm, grid in _grids(runs, snapshot)}
    points = tuple(float(point) for point in tuning["points"])
    arms = tuple(_arm(name, grid, points) for name, grid in grids.items())
    references = {arm: reference(snapshot, arm) for arm in judged95}
    ranges = _ranges(grids, references, judged95, _range_words(setting(tuning["key"]), points))
    return Tuning(tuning["key"], points, len(tuning["seeds"]), arms, ranges)


def _grids(runs: pd.DataFrame, snapshot: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], NDArray[np.float64]]]:
    """Each arm's tuning losses [seeds, points], inf where a run diverged, NaN where none is recorded."""
    tuning, tried = snapshot["tuning"], runs[runs["stage"] == TUNE]
    loss = tried[snapshot["metric"]].where(tried["status"] == COMPLETED, np.inf)
    table = tried.assign(loss=loss).set_index(["arm", "seed", "point"])["loss"]
    index = [
        pd.MultiIndex.from_product([[arm["name"]], tuning["seeds"], [float(p) for p in tuning["points"]]])
        for arm in snapshot["arms"]
    ]
    shape = len(tuning["seeds"]), len(tuning["points"])
    return [
        (arm, table.reindex(rows).to_numpy(dtype=float).reshape(shape))
        for arm, rows in zip(snapshot["arms"], index, strict=True)
    ]


def _arm(name: str, grid: NDArray[np.float64], points: Sequence[float]) -> ArmTuning:
    summaries = []
    for point, column in zip(points, grid.T, strict=True):
        losses = column[np.isfinite(column)]
        mean = float(losses.mean()) if len(losses) else NAN
        summaries.append(PointSummary(point, len(losses), mean, sd_of(losses), int(np.isinf(column).sum())))
    index = select(grid)
    selected = None if index is None else points[index]
    return ArmTuning(name, tuple(summaries), selected, index in (0, len(points) - 1))


def _ranges(
    grids: Mapping[str, NDArray[np.float64]],
    references: Mapping[str, str],
    judged95: Mapping[str, Interval],
    words: tuple[str, str, str],
) -> tuple[RangeComparison, ...]:
    found = {arm: _range(grids[arm], grids[references[arm]]) for arm in judged95}
    adjusted = holm([one.p_value for one in found.values()]).tolist()
    result = []
    for (arm, one), p in zip(found.items(), adjusted, strict=True):
        baseline = references[arm]
        larger = float(np.fmax(_spread(grids[arm]), _spread(grids[baseline])))  # of the known ones
        spread = BEST_ON_GRID * larger / len(grids[arm]) ** 0.5
        own = judged95[arm]
        widened = replace(own, low=own.low - spread, high=own.high + spread)
        result.append(RangeComparison(arm, baseline, one, p, widened, _sentence(arm, baseline, one, p, words)))
    return tuple(result)


def _range(arm_SP: NDArray[np.float64], baseline_SP: NDArray[np.float64]) -> UsableRange:
    """Over the seeds whose whole row of the grid is there for both."""
    whole = ~(np.isnan(arm_SP).any(1) | np.isnan(baseline_SP).any(1))
    return usable_range(arm_SP[whole], baseline_SP[whole])


def _spread(grid: NDArray[np.float64]) -> float:
    """The SD over seeds within a point, the root of the mean variance over points with two finite losses or more."""
    variances = [sd_of(column[np.isfinite(column)]) ** 2 for column in grid.T]
    known = [variance for variance in variances if np.isfinite(variance)]
    return float(np.mean(known) ** 0.5) if known else NAN


def _range_words(what: str, points: Sequence[float]) -> tuple[str, str, str]:
    """What an arm with less excess over the grid is said to be, with more, and the question: a range is claimed only on
    a grid that is fine enough for one."""
    if all(high <= HALF_AN_OCTAVE * low * (1 + 1e-9) for low, high in pairwise(points)):
        ranges = [f"is usable over a {kind} range of {what} than" for kind in ("wider", "narrower")]
        return ranges[0], ranges[1], f"is usable over the wider range of {what}"
    there = f"over these {len(points)} points of {what}"
    return f"loses less {there} than", f"loses more {there} than", f"loses less {there}"


def _sentence(arm: str, baseline: str, one: UsableRange, p: float, words: tuple[str, str, str]) -> str:
    less, more, question = words
    if one.n < FEWEST_RANGE_SEEDS or not np.isfinite(one.p_value):
        there = f"{one.n} tuning seeds are there, and a claim takes {FEWEST_RANGE_SEEDS} whose losses vary"
        return f"Which of {arm} and {baseline} {question} is not known: {there}."
    size = number_text(one.difference, one.standard_error, "+")
    evidence = (
        f"mean excess loss over the grid {size} against {baseline} "
        f"({interval_text(one.interval95, one.standard_error)}, {one.n} tuning seeds)"
    )
    if p < ALPHA:
        return f"{arm} {less if one.difference < 0 else more} {baseline}: {evidence}."
    return f"Whether {arm} or {baseline} {question} is undecided: {evidence}."
