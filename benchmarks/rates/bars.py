"""A bar, what is measured against it, and how: the worst of several cells, measured a second time on fresh streams."""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

SEED = 20_261_130
FEWEST = 4_000  # studies behind any number that is published
ALLOWED = 1.0  # points of Monte Carlo error at most, and two standard errors
SCREEN = 5  # the worst cell is looked for with this fraction of the studies

# The outcomes of every study of a cell, by what distinguishes them; a share is a mean of booleans.
Outcomes = Mapping[str, NDArray[np.bool_] | NDArray[np.number]]
Cell = Callable[[Generator, int], Outcomes]


@dataclass(frozen=True)
class Bar:
    """A number that must lie from `low` to `high` in the worst of `cells`: a percentage, or seeds.

    `slow` divides the number of studies.
    """

    name: str
    cells: Mapping[str, Cell]
    low: float = -math.inf
    high: float = math.inf
    unit: str = "%"
    slow: int = 1

    @property
    def required(self) -> str:
        bounds = [f"≥ {self.low:g}"] * math.isfinite(self.low) + [f"≤ {self.high:g}"] * math.isfinite(self.high)
        return f"{' and '.join(bounds)} {self.unit}" if bounds else ""


@dataclass(frozen=True)
class Row:
    """What came out of a bar in its worst cell, `where`."""

    bar: Bar
    where: str
    measured: float
    error: float
    studies: int

    @property
    def excess(self) -> float:
        """By how much the bar is missed."""
        return max(self.bar.low - self.measured, self.measured - self.bar.high, 0.0)

    @property
    def met(self) -> str:
        if not self.bar.required:
            return ""
        if self.excess == 0:
            return "yes"
        return "within error" if self.excess <= min(ALLOWED, 2 * self.error) else "no"


def stream(*words: object) -> Generator:
    """A stream of its own for what `words` name, the same on every machine."""
    return np.random.default_rng([SEED, zlib.crc32(repr(words).encode())])


def measure(bar: Bar, studies: int) -> Row:
    """The worst cell and its rate. The worst of many noisy rates is too high, so it is measured again, by itself."""
    studies = max(FEWEST, studies // bar.slow)
    cell, what = next(iter(bar.cells)), ""
    if len(bar.cells) > 1:
        found = {
            (cell, what): float(np.mean(values, dtype=float))
            for cell, simulate in bar.cells.items()
            for what, values in simulate(stream(bar.name, cell), max(FEWEST, studies // SCREEN)).items()
        }
        cell, what = (min if math.isfinite(bar.low) else max)(found, key=found.__getitem__)
    values = np.asarray(bar.cells[cell](stream(bar.name, cell, "again"), studies)[what], dtype=float)
    scale = 100 if bar.unit == "%" else 1
    error = scale * values.std(ddof=1) / len(values) ** 0.5
    return Row(bar, ", ".join(filter(None, (cell, what))), scale * float(values.mean()), float(error), len(values))
