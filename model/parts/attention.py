"""Attention over earlier positions."""

from dataclasses import dataclass

from torch import Tensor, nn


class _CausalAttention(nn.Module):
    """x_BTD -> x_BTD; position t attends to positions s <= t only."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        B, T, D = x_BTD.shape
        q_BHTK, k_BHSK, v_BHSK = (
            self.query_key_value(x_BTD).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        )
        y_BHTK = nn.functional.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, is_causal=True)
        y_BTD: Tensor = self.output(y_BHTK.transpose(1, 2).reshape(B, T, D))
        return y_BTD


@dataclass(frozen=True)
class CausalAttention:
    """Multi-head scaled dot-product attention without biases (Vaswani et al. 2017, section 3.2.2)."""

    heads: int = 4

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError(f"heads must be at least 1, but it is {self.heads}.")

    def check(self, width: int) -> None:
        """Raise ValueError when `width` does not divide into the heads."""
        if width % self.heads:
            raise ValueError(f"d_model {width} is not divisible by {self.heads} heads; each head takes an equal share.")

    def build(self, width: int) -> nn.Module:
        self.check(width)
        return _CausalAttention(width, self.heads)

    def matrices(self, width: int) -> int:
        """Parameters that take part in matrix products."""
        return 4 * width * width

    def count(self, width: int) -> int:
        return self.matrices(width)


Attention = CausalAttention
