"""Under which other conditions a trained model is scored, beside its held-out loss: the same weights, another code.

A scoring is recorded as the curve ``val_loss <name>`` with one point, after the last update. One that would change
nothing of a recipe's score is a ValueError when the recipe is made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor, nn

from model.parts.block import NoResidual
from model.parts.position import ClampedPosition, LearnedPosition, RotaryPosition
from model.transformer import ModelConfig, Transformer


@dataclass(frozen=True)
class AtLength:
    """Windows of `context` tokens. Positions beyond the learned ones take the last of them; rotary positions go on,
    with their frequencies `stretched` for windows so many times as long (1 leaves them).

    Raises ValueError for a factor that is not positive.
    """

    context: int
    stretched: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.stretched < math.inf:
            raise ValueError(f"Frequencies are stretched by a factor above 0, but it is {self.stretched}.")

    @property
    def name(self) -> str:
        return f"at {self.context}" + (f" stretched {self.stretched:g}" if self.stretched != 1 else "")

    @property
    def part(self) -> str:
        """The part of the held-out text that is scored: all of it."""
        return ""

    def check(self, config: ModelConfig) -> None:
        """Raise ValueError when a model of `config` cannot be scored so, or would be scored as without."""
        self.config(config)
        if self.stretched == 1 and self.context == config.context:
            raise ValueError(
                f"Windows of {self.context} tokens are those of the training; that score is the held-out loss."
            )

    def config(self, config: ModelConfig) -> ModelConfig:
        """`config` as it is run for this scoring; its parameters have the same names and shapes."""
        position = config.position
        if isinstance(position, RotaryPosition):
            head = config.d_model // config.attention.heads
            if self.stretched != 1 and head == 2:
                raise ValueError("A head of 2 coordinates has one frequency, and stretching leaves the fastest.")
            if self.stretched != 1:
                position = position.stretched(self.stretched, head)
        elif self.stretched != 1:
            raise ValueError(f"{type(position).__name__} has no frequencies to stretch; score it without.")
        elif isinstance(position, LearnedPosition):
            position = ClampedPosition(config.context)
        return replace(config, context=self.context, position=position)

    def alter(self, model: Transformer) -> None:
        """Leave `model`, built from this scoring's config, as it is."""


@dataclass(frozen=True)
class Ablated:
    """Branches of every layer weakened alike: what they add to the stream is multiplied by one less this degree, so
    that 0 leaves them and 1 switches them off. Scored on `part` of the held-out text, or on all of it; on a part a
    model may also be scored whole.

    A degree and not a number of layers: it says the same for any depth, and no layer has to be chosen.
    Raises ValueError for a degree outside 0 to 1.
    """

    attention: float = 0.0
    feedforward: float = 0.0
    part: str = ""

    def __post_init__(self) -> None:
        for branch, degree in self.degrees.items():
            if not 0 <= degree <= 1:
                raise ValueError(f"{branch} is ablated by a degree from 0 to 1, but it is {degree}.")

    @property
    def degrees(self) -> dict[str, float]:
        """By branch, as the modules of a block are called."""
        return {"attention": self.attention, "feedforward": self.feedforward}

    @property
    def name(self) -> str:
        off = [
            f"{branch} off" + (f" {degree:g}" if degree < 1 else "")
            for branch, degree in self.degrees.items()
            if degree
        ]
        return (" and ".join(off) or "whole") + (f" on {self.part}" if self.part else "")

    def check(self, config: ModelConfig) -> None:
        """Raise ValueError when a model of `config` cannot be scored so, or would be scored as without."""
        if not any(self.degrees.values()) and not self.part:
            raise ValueError("Nothing is ablated and no part of the text is named; that score is the held-out loss.")
        if any(self.degrees.values()) and isinstance(config.placement, NoResidual):
            raise ValueError("Without a residual stream a branch is all that there is, and cannot be switched off.")

    def config(self, config: ModelConfig) -> ModelConfig:
        """`config` itself."""
        return config

    def alter(self, model: Transformer) -> None:
        """Weaken the branches of `model`, whose parameters keep their names."""
        for block in model.blocks:
            for branch, degree in self.degrees.items():
                if degree:
                    block.get_submodule(branch).register_forward_hook(_times(1 - degree))


def _times(factor: float) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    return lambda module, inputs, y_BTD: factor * y_BTD


Scoring = AtLength | Ablated
