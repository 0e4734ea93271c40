"""Under which other conditions a trained model is scored, beside its held-out loss: the same weights, another code.

A scoring is recorded as the curve ``val_loss <name>`` with one point, after the last update.
"""

from dataclasses import dataclass, replace

from model.parts.position import ClampedPosition, LearnedPosition, RotaryPosition
from model.transformer import ModelConfig


@dataclass(frozen=True)
class AtLength:
    """Windows of `context` tokens. Positions beyond the learned ones take the last of them; rotary positions go on,
    with their frequencies `stretched` by that factor (1 leaves them).

    Raises ValueError for a factor that has no effect on the positions of the model, or is not positive.
    """

    context: int
    stretched: float = 1.0

    @property
    def name(self) -> str:
        return f"at {self.context}" + (f" stretched {self.stretched:g}" if self.stretched != 1 else "")

    @property
    def part(self) -> str:
        """The part of the held-out text that is scored: all of it."""
        return ""

    def config(self, config: ModelConfig) -> ModelConfig:
        """`config` as it is run for this scoring; its parameters have the same names and shapes."""
        position = config.position
        if isinstance(position, RotaryPosition):
            position = position.stretched(self.stretched, config.d_model // config.attention.heads)
        elif self.stretched != 1:
            raise ValueError(f"{type(position).__name__} has no frequencies to stretch; score it without.")
        elif isinstance(position, LearnedPosition):
            position = ClampedPosition(config.context)
        return replace(config, context=self.context, position=position)


Scoring = AtLength
