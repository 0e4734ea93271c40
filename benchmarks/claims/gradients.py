"""The gradient in the residual stream before any training, by depth and placement: the lower half of figure 2.1.

Measured by `model.diagnostics` on windows of the poems. The text matters to it, as it does not to the width of the
stream: over symbols that are all equally frequent pre-norm's gradient falls less from the first layer to the last.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from claims.claim import Claim
from claims.growth import DEPTHS, SEEDS, WINDOWS, WITHIN
from model.batches import training_batch
from model.corpus.text import Corpus
from model.corpus.texts import TangPoems
from model.diagnostics import measure
from model.diagnostics.initial import at_initialisation
from model.initializer import Initializer, PlainNormal, ScaledNormal
from model.parts.block import Placement, PostNorm, PreNorm
from model.transformer import ModelConfig

BATCH = 32  # windows, the chapter's
PRE = (1.65e-4, 1.60e-4, 1.41e-4, 2.21e-4)  # what it prints of the gradient after the first layer, by DEPTHS
POST = (9.68e-6, 9.73e-6, 9.49e-6, 9.70e-6)
NEAR = f"A value holds within {WITHIN:.0%}, since one draw was printed".replace("%", " %")


class Profile(NamedTuple):
    """By seed and depth, both (SEEDS, len(DEPTHS))."""

    ratio: NDArray[np.float64]  # scale of the stream's gradient after the first layer, over that after the last
    first: NDArray[np.float64]  # scale of it after the first layer


@cache
def measured(initializer: Initializer, placement: Placement) -> Profile:
    """Of untrained models, each on WINDOWS windows that its seed draws from the poems."""
    models = [ModelConfig(layers=layers, initializer=initializer, placement=placement) for layers in DEPTHS]
    corpus = _poems()
    batches = [training_batch(corpus, models[0].context, WINDOWS, seed, step=0) for seed in range(SEEDS)]
    found = [[measure(model.build(seed), batch) for model in models] for seed, batch in enumerate(batches)]
    return Profile(
        np.array([[anatomy.gradient_ratio for anatomy in row] for row in found]),
        np.array([[anatomy.gradient_R[1] for anatomy in row] for row in found]),
    )


@cache
def _poems() -> Corpus:
    config = ModelConfig()
    return TangPoems().build(config.vocabulary, config.context)


def gradients() -> Iterator[Claim]:
    """From the 4,003 poems, fetched where they are not cached."""
    yield from _profiles()
    post = measured(PlainNormal(), PostNorm())
    yield Claim(
        "2.6", "Post-norm's gradient is after the first layer what it is after the last, at every depth.",
        ("1.00",) * 4, _medians(post.ratio),
        f"first weights not scaled, as in the row above, medians over {SEEDS} seeds; scaled ones give "
        f"{_listed(_medians(measured(ScaledNormal(), PostNorm()).ratio))}. {NEAR}", within=WITHIN,
    )  # fmt: skip
    in_a_batch = 1e6 * np.array(_medians(post.first)) * WINDOWS / BATCH
    targets, std = BATCH * ModelConfig().context, PlainNormal().std
    yield Claim(
        "2.6, 2.8", "Post-norm's gradient after the first layer does not depend on the depth: 6, 12, 24, 48 layers, in "
        "1e-6.", tuple(f"{1e6 * value:.2f}" for value in POST), tuple(in_a_batch),
        f"the same models. Of a batch of {BATCH} windows, the chapter's, it is {WINDOWS} / {BATCH} of what {WINDOWS} "
        f"give, the loss being a mean; and about an output row, whose entries have SD {std:g}, over {targets:,} "
        f"targets, {1e6 * std / targets:.2f}, since the stream's width is 1. {NEAR}", within=WITHIN,
    )  # fmt: skip
    yield _factor()


def _profiles() -> Iterator[Claim]:
    where = "pre-norm's gradient is so many times as large after the first layer as after the last"
    even = [
        at_initialisation(ModelConfig(initializer=PlainNormal()), DEPTHS[-1:], seed)[DEPTHS[-1]].gradient_ratio
        for seed in range(SEEDS)
    ]
    other = f" Over symbols that are all equally frequent the last would be {np.median(even):.2f}."
    for initializer, weights in (
        (ScaledNormal(), "the chapter's own first weights, scaled by 1 / sqrt(2 L),"),
        (PlainNormal(), "first weights not scaled"),
    ):
        ratio = measured(initializer, PreNorm()).ratio
        spread = [f"{low:.2f} to {high:.2f}" for low, high in zip(ratio.min(0), ratio.max(0), strict=True)]
        yield Claim(
            "2.6", f"With {weights} {where}: 6, 12, 24, 48 layers.", ("2.12", "3.16", "4.10", "8.63"), _medians(ratio),
            f"by model.diagnostics on {WINDOWS} windows of the poems, medians over {SEEDS} seeds, which give "
            f"{', '.join(spread)}.{other * (initializer == PlainNormal())} {NEAR}", within=WITHIN,
        )  # fmt: skip


def _factor() -> Claim:
    plain, scaled = (
        measured(initializer, PreNorm()).first / measured(initializer, PostNorm()).first
        for initializer in (PlainNormal(), ScaledNormal())
    )
    by_depth = _medians(plain)
    own = [pre / post for pre, post in zip(PRE, POST, strict=True)]
    return Claim(
        "2.6, 2.8", "Post-norm's gradient after the first layer is about 15 times smaller than pre-norm's, by a factor "
        "that does not change with the depth.", ("yes", "yes"),
        (all(abs(factor / 15 - 1) < 1 / 3 for factor in by_depth), max(by_depth) < 1.1 * min(by_depth)),
        f"at 6, 12, 24, 48 layers it is {_listed(by_depth, 1)} with first weights not scaled, medians over {SEEDS} "
        f"seeds, which go from {plain.min():.1f} to {plain.max():.1f}; {_listed(own, 1)} by the chapter's own figures; "
        f"{_listed(_medians(scaled), 1)} with scaled weights. About is within a third, not changed within a tenth",
    )  # fmt: skip


def _medians(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(map(float, np.median(values, 0)))


def _listed(values: Sequence[float], places: int = 2) -> str:
    return ", ".join(f"{value:.{places}f}" for value in values)
