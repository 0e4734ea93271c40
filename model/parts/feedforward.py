"""The position-wise layer of a block."""

from dataclasses import dataclass

from torch import Tensor, nn


class _FeedForward(nn.Module):
    """x_BTD -> x_BTD through a hidden layer h_BTF."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.input = nn.Linear(width, hidden)
        self.output = nn.Linear(hidden, width)

    def forward(self, x_BTD: Tensor) -> Tensor:
        h_BTF: Tensor = nn.functional.gelu(self.input(x_BTD))
        y_BTD: Tensor = self.output(h_BTF)
        return y_BTD


@dataclass(frozen=True)
class GELUFeedForward:
    """Two matrices with biases around an exact GELU (Hendrycks & Gimpel 2016): D -> d_ff -> D."""

    d_ff: int = 256

    def __post_init__(self) -> None:
        if self.d_ff < 1:
            raise ValueError(f"d_ff must be at least 1, but it is {self.d_ff}.")

    def build(self, width: int) -> nn.Module:
        return _FeedForward(width, self.d_ff)

    def matrices(self, width: int) -> int:
        """Parameters that take part in matrix products."""
        return 2 * width * self.d_ff

    def count(self, width: int) -> int:
        return self.matrices(width) + self.d_ff + width


FeedForward = GELUFeedForward
