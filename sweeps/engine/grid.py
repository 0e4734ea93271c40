"""A grid of one setting that every arm is tuned on, with equal budgets, before the arms are judged on other seeds."""

import dataclasses
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from model.recipe import Recipe

FIRST_TUNING_SEED = 1_000_000  # tuning seeds lie above all seeds that a study may be judged on
FEWEST_TUNING_SEEDS = 3


@dataclass(frozen=True)
class Grid:
    """The `points` of the recipe's number `key`, such as "optimizer.learning_rate", each tried with `seeds` seeds.

    The point with the lowest mean loss is selected for each arm by itself. Raises ValueError for a grid that cannot
    select: fewer than two points, points that do not increase from above zero, fewer than three seeds.

    >>> Grid("optimizer.learning_rate", (1e-3, 3e-3)).at(Recipe(), 1e-3).optimizer.learning_rate
    0.001
    """

    key: str
    points: tuple[float, ...]
    seeds: int = 5

    def __post_init__(self) -> None:
        if len(self.points) < 2:
            raise ValueError(f"The grid of {self.key} has {len(self.points)} point(s); it takes two or more to select.")
        if not (self.points[0] > 0 and math.isfinite(self.points[-1]) and all(a < b for a, b in pairwise(self.points))):
            raise ValueError(f"The points of the grid of {self.key} must increase from above zero, not {self.points}.")
        if self.seeds < FEWEST_TUNING_SEEDS:
            raise ValueError(
                f"The grid of {self.key} is tried with {self.seeds} seed(s) a point; it takes {FEWEST_TUNING_SEEDS} or "
                "more, for the luckiest of single runs says little."
            )

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        """Seeds that no arm is ever judged on, the same for every arm and point."""
        return tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.seeds))

    def at(self, recipe: Recipe, point: float) -> Recipe:
        """`recipe` with its `key` at `point`. Raises ValueError when it has no such number, or it cannot be that."""
        changed: Recipe = self._replaced(recipe, self.key.split("."), point)
        return changed

    def _replaced(self, value: Any, names: list[str], point: float) -> Any:
        name, *below = names
        if not dataclasses.is_dataclass(value) or name not in {field.name for field in dataclasses.fields(value)}:
            raise ValueError(f"A recipe has no setting {self.key!r}, so a grid cannot set it.")
        old = getattr(value, name)
        if not below and type(old) not in (int, float):
            raise ValueError(f"{self.key} is no number, so it has no grid.")
        if not below and type(old) is int and point != int(point):
            raise ValueError(f"{self.key} is a whole number, so its grid cannot hold {point:g}.")
        new = self._replaced(old, below, point) if below else type(old)(point)
        return dataclasses.replace(value, **{name: new})  # type: ignore[type-var]
