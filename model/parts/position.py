"""How a position enters the model: added to the embedding, or turned into the queries and keys of every head."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


class _LearnedPosition(nn.Module):
    """x_BTD -> x_BTD with one trained vector per position added."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.zeros(context, width))

    def forward(self, x_BTD: Tensor) -> Tensor:
        T, context = x_BTD.shape[1], self.embedding.shape[0]
        if context < T:
            raise ValueError(f"A sequence of {T} tokens is longer than the {context} positions that were learned.")
        return x_BTD + self.embedding[:T]


@dataclass(frozen=True)
class LearnedPosition:
    """A vector per absolute position, added to the token embedding (Vaswani et al. 2017, section 3.5)."""

    def check(self, head: int) -> None:
        """Heads of any width will do."""

    def build(self, width: int, context: int) -> nn.Module:
        return _LearnedPosition(width, context)

    def count(self, width: int, context: int) -> int:
        return width * context

    def place(self, q_BHTK: Tensor) -> Tensor:
        """Queries and keys are left as they are."""
        return q_BHTK


class _ClampedPosition(_LearnedPosition):
    def forward(self, x_BTD: Tensor) -> Tensor:
        last = self.embedding.shape[0] - 1
        return x_BTD + self.embedding[torch.arange(x_BTD.shape[1], device=x_BTD.device).clamp(max=last)]


@dataclass(frozen=True)
class ClampedPosition(LearnedPosition):
    """The `learned` positions of a model that is scored on longer sequences: those beyond them take the last one's."""

    learned: int

    def build(self, width: int, context: int) -> nn.Module:
        return _ClampedPosition(width, self.learned)

    def count(self, width: int, context: int) -> int:
        return width * self.learned


@dataclass(frozen=True)
class RotaryPosition:
    """Queries and keys turned by an angle that grows with their position, so that a score depends on distance alone
    (Su et al. 2021, arXiv:2104.09864, eq. 34). Coordinate i is paired with coordinate i + K / 2 of the K of a head.

    Raises ValueError for a base that is not above one.
    """

    base: float = 10_000.0

    def __post_init__(self) -> None:
        if not self.base > 1:
            raise ValueError(f"The base of rotary positions must be above 1, but it is {self.base}.")

    def check(self, head: int) -> None:
        """Raise ValueError when a head has an odd number of coordinates."""
        if head % 2:
            raise ValueError(f"Rotary positions turn pairs of coordinates, but a head has {head}; use an even number.")

    def build(self, width: int, context: int) -> nn.Module:
        """Nothing is added to the embedding, so nothing is trained."""
        return nn.Identity()

    def count(self, width: int, context: int) -> int:
        return 0

    def place(self, q_BHTK: Tensor) -> Tensor:
        """Position t of `q_BHTK` turned by t base^(-2 i / K) in its pair i; angles and turning in float32 or wider."""
        T, K = q_BHTK.shape[-2:]
        dtype = torch.promote_types(q_BHTK.dtype, torch.float32)
        pairs = torch.arange(0, K, 2, device=q_BHTK.device, dtype=torch.float64) / K
        angles_TK = torch.arange(T, device=q_BHTK.device, dtype=torch.float64)[:, None] * self.base**-pairs
        cos, sin = angles_TK.cos().to(dtype), angles_TK.sin().to(dtype)
        first, second = q_BHTK.to(dtype).chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1).to(q_BHTK.dtype)

    def stretched(self, factor: float, head: int) -> "RotaryPosition":
        """NTK-aware scaling to contexts `factor` times as long: the slowest of a head's K / 2 frequencies is divided by
        `factor`, the fastest stays (bloc97 2023: base times factor^(K / (K - 2)), with K = `head`)."""
        return RotaryPosition(self.base * factor ** (head / (head - 2)))


Position = LearnedPosition | ClampedPosition | RotaryPosition
