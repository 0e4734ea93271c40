"""How the residual stream grows with depth before any training: the chapter's law, a better one, and the models.

First weights are independent from layer to layer, so the variances that branches add do add up. How much a layer adds
follows from what its positions have in common. In a wide model a coordinate of the stream has a covariance C over
positions, at first 2 std² on the diagonal, and a norm makes of it the correlation R. Nearly uniform attention averages
the positions so far (the matrix A), and adds D std_out² D std² A R A'. The feed-forward adds F std_out² E[gelu(u)
gelu(v)], u and v normal with variance D std² and correlation R: the sum of a_k² R^k over Hermite coefficients a_k.
"""

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from claims.claim import Claim
from model.initializer import Initializer, PlainNormal, ScaledNormal
from model.parts.block import Placement, PostNorm, PreNorm
from model.transformer import ModelConfig

DEPTHS = (6, 12, 24, 48)
SEEDS = 5
WINDOWS = 8  # of random tokens, the same for every model of a seed
WITHIN = 0.05
PROFILE = ("2.57", "3.87", "5.68", "7.78")


@cache
def predicted(layers: int, scaled: bool) -> tuple[float, ...]:
    """The variance of the stream after 0, 1, ... `layers` layers by the recursion above."""
    config = ModelConfig(layers=layers)
    std, width, length = config.initializer.std, config.d_model, config.context
    out = std**2 / (2 * layers if scaled else 1)
    average = np.tril(np.ones((length, length))) / np.arange(1, length + 1)[:, None]
    squares = [a**2 for a in _hermite(width**0.5 * std)]
    covariance, variances = 2 * std**2 * np.eye(length), [2 * std**2]
    for _ in range(layers):
        covariance = covariance + width * out * width * std**2 * average @ _correlation(covariance) @ average.T
        alike = _correlation(covariance)
        covariance = covariance + config.feedforward.d_ff * out * sum(a * alike**k for k, a in enumerate(squares))
        variances.append(float(covariance.diagonal().mean()))
    return tuple(variances)


def _correlation(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    sds = np.sqrt(covariance.diagonal())
    return covariance / np.outer(sds, sds)


def _hermite(s: float) -> list[float]:
    """Coefficients of gelu(s z) in the normalised Hermite polynomials of a standard normal z."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    values = s * nodes * stats.norm.cdf(s * nodes) * weights / (2 * np.pi) ** 0.5
    terms = [np.polynomial.hermite_e.hermeval(nodes, [0] * k + [1]) / math.factorial(k) ** 0.5 for k in range(9)]
    return [float(values @ term) for term in terms]


@cache
@torch.no_grad()
def measured(layers: int, initializer: Initializer, placement: Placement) -> tuple[float, float]:
    """Means over seeds: the stream's SD after the last layer over that after the first, and the SD of logits without
    the final norm over that with it."""
    found = []
    for seed in range(SEEDS):
        model = ModelConfig(layers=layers, initializer=initializer, placement=placement).build(seed)
        tokens_BT = torch.randint(1200, (WINDOWS, 64), generator=torch.Generator().manual_seed(seed))
        x_BTD = model.position(torch.nn.functional.embedding(tokens_BT, model.embedding))
        stds = []
        for block in model.blocks:
            x_BTD = block(x_BTD)
            stds.append(x_BTD.std().item())
        bare, whole = torch.nn.functional.linear(x_BTD, model.embedding), model(tokens_BT)
        found.append((stds[-1] / stds[0], (bare.std() / whole.std()).item()))
    growth, logits = np.mean(found, 0)
    return float(growth), float(logits)


def _growth(initializer: Initializer) -> tuple[float, ...]:
    return tuple(measured(layers, initializer, PreNorm())[0] for layers in DEPTHS)


def _predicted_growth(layers: int, scaled: bool) -> float:
    variances = predicted(layers, scaled)
    return float((variances[-1] / variances[1]) ** 0.5)


def growth() -> Iterator[Claim]:
    yield Claim(
        "2.7, 2.15, 2.24", "sqrt(L) at 24, 48, 192, 200 and 1,000 layers.", ("4.9", "6.9", "13.86", "14.1", "31.6"),
        tuple(layers**0.5 for layers in (24, 48, 192, 200, 1000)), "roots",
    )  # fmt: skip
    yield from _profiles()
    yield from _laws()
    post = tuple(measured(layers, ScaledNormal(), PostNorm())[0] for layers in DEPTHS)
    yield Claim(
        "2.6", "Post-norm keeps the stream as wide as it is, at every depth.", ("1.00",) * 4, post,
        f"means over {SEEDS} seeds",
    )  # fmt: skip


def logits_without_norm() -> float:
    """How many times as wide the logits of the 12-layer model are without its final norm, before training."""
    return measured(12, ScaledNormal(), PreNorm())[1]


def _profiles() -> Iterator[Claim]:
    where = "the stream is so many times as wide after the last layer as after the first: 6, 12, 24, 48 layers."
    for scaled, initializer in ((True, ScaledNormal()), (False, PlainNormal())):
        weights = "the chapter's own first weights, scaled by 1 / sqrt(2 L)," if scaled else "first weights not scaled"
        by_recursion = [_predicted_growth(layers, scaled) for layers in DEPTHS]
        other = f", and {_predicted_growth(1000, True):.2f} at 1,000 layers: so the printed values are of other weights"
        yield Claim(
            "2.6", f"With {weights} {where}", PROFILE, _growth(initializer),
            f"pre-norm models, means over {SEEDS} seeds; the recursion of benchmarks/claims/growth.py gives "
            f"{_listed(by_recursion)}{other * scaled}. A value holds within {WITHIN:.0%}, since one draw was "
            "printed".replace("%", " %"), within=WITHIN,
        )  # fmt: skip


def _laws() -> Iterator[Claim]:
    plain, scaled = _growth(PlainNormal()), _growth(ScaledNormal())
    by_recursion = [_predicted_growth(layers, False) for layers in DEPTHS]
    off = max(abs(a / b - 1) for a, b in zip(plain, by_recursion, strict=True))
    added = np.diff(predicted(DEPTHS[-1], False))
    slope = np.polyfit(np.log(DEPTHS), np.log(plain), 1)[0]
    yield Claim(
        "2.7", "Without scaling the variances of branches add; every layer adds the same; so the stream's width grows "
        "as sqrt(L).", ("yes", "yes", "yes"),
        (off < 0.05, bool(added[-1] < 1.05 * added[0]), bool(abs(slope - 0.5) < 0.02)),
        f"a recursion that adds them is within {off:.1%} of the models. But the last of 48 layers adds "
        f"{added[-1] / added[0]:.1f} times what the first adds: attention averages away what positions do not have in "
        f"common, and layer by layer they have more. From 6 to 48 layers the width goes with L to the power "
        f"{slope:.2f}".replace("%", " %"),
    )  # fmt: skip
    yield Claim(
        "2.19, 2.24", "With the scaling the last layer's variance hardly depends on the depth; yet it only slows the "
        "growth, as 7.78 at 48 layers is above sqrt(48).", ("yes", "yes"),
        (max(scaled) < 1.1 * min(scaled), scaled[-1] > 48**0.5),
        f"from 6 to 48 layers the measured growth goes from {min(scaled):.2f} to {max(scaled):.2f}. The printed 7.78 "
        "is that of weights that are not scaled, and the gains that the chapter blames for it are 1 before training",
    )  # fmt: skip


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
