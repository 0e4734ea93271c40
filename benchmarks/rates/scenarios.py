"""Made-up losses of many studies at once, with a truth that is known: what `calibration.py` measures error rates on.

Shapes: R studies, N seeds, P points of a grid, S tuning seeds. All losses have mean 0 and SD 1 unless said, since every
procedure measured here is indifferent to a shift and a scale.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
SEEDS = (3, 5, 8, 10, 20)
RHOS = (-0.5, 0.0, 0.5, 0.7, 0.9)
SKEW = 3.3
_ROOT = 2 * np.sinh(np.arcsinh(SKEW / 2) / 3)  # x^3 + 3 x = SKEW, where x^2 + 1 = exp(s^2): the skewness of a lognormal
_LOG_SD = np.log1p(_ROOT**2) ** 0.5

# A shape makes standardised losses from standard normal ones, so that pairs of any shape can be correlated.
Shape = Callable[[Array, Generator], Array]


def normal(z: Array, rng: Generator) -> Array:
    return z


def lognormal(z: Array, rng: Generator) -> Array:
    """Skewness 3.3."""
    return (np.exp(_LOG_SD * z - _LOG_SD**2 / 2) - 1) / _ROOT


def gamma(z: Array, rng: Generator) -> Array:
    """Of shape 1, which is the exponential distribution: skewness 2."""
    return -special.log_ndtr(-z) - 1


def t3(z: Array, rng: Generator) -> Array:
    """Student's t with 3 degrees of freedom: a variance, but no kurtosis."""
    return z / rng.chisquare(3, z.shape) ** 0.5


@dataclass(frozen=True)
class Scenario:
    """How the losses of two arms are distributed; their true difference is 0.

    The arm's SD is `sd` times the baseline's. A share `outliers` of the runs of both arms ends 20 SD higher, a share
    `lost` has no loss at all (NaN), as runs that were recorded as diverged.
    """

    name: str
    arm: Shape = normal
    baseline: Shape = normal
    sd: float = 1.0
    outliers: float = 0.0
    lost: float = 0.0

    def draw(self, rng: Generator, studies: int, n: int, rho: float = 0.0) -> tuple[Array, Array]:
        """Losses of the arm and of the baseline, both [studies, n]; `rho` correlates the normals they are made of."""
        z, w = rng.standard_normal((2, studies, n))
        arm, baseline = self.sd * self.arm(z, rng), self.baseline(rho * z + (1 - rho**2) ** 0.5 * w, rng)
        return self._spoilt(arm, rng), self._spoilt(baseline, rng)

    def _spoilt(self, losses: Array, rng: Generator) -> Array:
        if self.outliers:
            losses = losses + 20 * (rng.random(losses.shape) < self.outliers)
        if self.lost:
            losses = np.where(rng.random(losses.shape) < self.lost, np.nan, losses)
        return losses


NORMAL, SD_RATIO = Scenario("normal"), Scenario("SD 1:3", sd=3.0)
MAIN = (
    NORMAL,
    SD_RATIO,
    Scenario("lognormal", lognormal, lognormal),
    Scenario("gamma", gamma, gamma),
    Scenario("t3", t3, t3),
    Scenario("5 % at +20 SD", outliers=0.05),
)
RECORDED = Scenario("5 % recorded as diverged", lost=0.05)
SKEW_A, STRESS = Scenario("skewA", lognormal), Scenario("stress", lognormal, sd=3.0)


@dataclass(frozen=True)
class Response:
    """Mean loss by point of a grid of seven, in SD over seeds, and the share of runs that diverges at each point."""

    name: str
    means_P: Array
    diverging_P: Array

    @property
    def best(self) -> float:
        """The lowest mean among the points at which nothing diverges."""
        return float(self.means_P[self.diverging_P == 0].min())

    def steeper(self, times: float) -> "Response":
        return replace(self, name=f"{times:g} x {self.name}", means_P=times * self.means_P)

    def mirrored(self) -> "Response":
        return replace(
            self, name=f"mirrored {self.name}", means_P=self.means_P[::-1], diverging_P=self.diverging_P[::-1]
        )

    def excess(self, cap: float) -> float:
        """What `robustness.mean_excess` estimates: of normal losses with SD 1, above the lowest mean, up to `cap`."""
        going, room = 1 - self.diverging_P, cap + self.best - self.means_P
        density = np.exp(-(room**2) / 2) / (2 * np.pi) ** 0.5
        return float((cap - going * (room * special.ndtr(room) + density)).mean())


def _response(name: str, means: Array, diverging: tuple[float, ...] = (0.0,) * 7) -> Response:
    return Response(name, np.asarray(means, dtype=float), np.asarray(diverging))


GRID = np.arange(-3.0, 4.0)
RESPONSES = (
    _response("flat", 0 * GRID),
    _response("bowl", 0.1 * GRID**2),
    _response("sharp", GRID**2),
    _response("pointed", 1.4 * np.abs(GRID)),
    _response("tilted", 0.4 * (GRID + 3)),
    _response("wall", np.where(GRID > 0, 2 * GRID, 0.0)),
    _response("cliff", -0.4 * GRID, (0, 0, 0, 0, 0, 0.6, 1)),
)


def draw_grid(rng: Generator, response: Response, seeds_effect_RS: Array, rho: float, sd: float = 1.0) -> Array:
    """Losses [R, S, P] of one arm on the grid, inf where a run diverged.

    A seed shifts all its runs alike by its effect, and `rho` is the share of the variance that this makes.
    """
    shape = (*seeds_effect_RS.shape, len(response.means_P))
    noise = rho**0.5 * seeds_effect_RS[..., None] + (1 - rho) ** 0.5 * rng.standard_normal(shape)
    return np.where(rng.random(shape) < response.diverging_P, np.inf, response.means_P + sd * noise)
