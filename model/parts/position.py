"""How a position enters the model."""

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

    def build(self, width: int, context: int) -> nn.Module:
        return _LearnedPosition(width, context)

    def count(self, width: int, context: int) -> int:
        return width * context


Position = LearnedPosition
