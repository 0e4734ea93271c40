"""Attention over earlier positions."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.parts.position import Position

FUSED_FROM = 256  # tokens from which a GPU attends by a fused kernel, for its memory; not yet measured on one


class _CausalAttention(nn.Module):
    """x_BTD -> x_BTD; position t attends to positions s <= t only."""

    def __init__(self, width: int, heads: int, position: Position) -> None:
        super().__init__()
        self.heads, self.place = heads, position.place
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def project(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What each head asks, offers and passes on: q_BHTK, k_BHSK, both placed, and v_BHSK."""
        B, T, D = x_BTD.shape
        q_BHTK, k_BHSK, v_BHSK = (
            self.query_key_value(x_BTD).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        )
        return self.place(q_BHTK), self.place(k_BHSK), v_BHSK

    def forward(self, x_BTD: Tensor) -> Tensor:
        B, T, D = x_BTD.shape
        attend = fused_attention if x_BTD.is_cuda and T >= FUSED_FROM else plain_attention
        y_BTD: Tensor = self.output(attend(*self.project(x_BTD)).transpose(1, 2).reshape(B, T, D))
        return y_BTD


def attention_weights(q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
    """weights_BHTS over the positions s <= t, in float32 or wider: each row sums to one, what lies ahead is zero."""
    T, K = q_BHTK.shape[-2:]
    scores_BHTS = q_BHTK @ k_BHSK.mT / math.sqrt(K)
    future_TS = torch.ones(T, T, dtype=torch.bool, device=q_BHTK.device).triu(1)
    dtype = torch.promote_types(scores_BHTS.dtype, torch.float32)
    return scores_BHTS.to(dtype).masked_fill(future_TS, -math.inf).softmax(-1)


def plain_attention(q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor) -> Tensor:
    """Scores, softmax and mean as three operations -> y_BHTK; the softmax in float32 or wider.

    On a CPU this is the faster way: with PyTorch's fused kernel an update of the 12-layer model in bfloat16 takes three
    times as long.
    """
    return attention_weights(q_BHTK, k_BHSK).to(v_BHSK.dtype) @ v_BHSK


def fused_attention(q_BHTK: Tensor, k_BHSK: Tensor, v_BHSK: Tensor) -> Tensor:
    """The same by one kernel, which never holds the square of scores."""
    return nn.functional.scaled_dot_product_attention(q_BHTK, k_BHSK, v_BHSK, is_causal=True)


@dataclass(frozen=True)
class CausalAttention:
    """Multi-head scaled dot-product attention without biases (Vaswani et al. 2017, section 3.2.2)."""

    heads: int = 4

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise ValueError(f"heads must be at least 1, but it is {self.heads}.")

    def check(self, width: int, position: Position) -> None:
        """Raise ValueError when `width` does not divide into the heads, or a head not into what `position` turns."""
        if width % self.heads:
            raise ValueError(f"d_model {width} is not divisible by {self.heads} heads; each head takes an equal share.")
        position.check(width // self.heads)

    def build(self, width: int, position: Position) -> nn.Module:
        self.check(width, position)
        return _CausalAttention(width, self.heads, position)

    def matrices(self, width: int) -> int:
        """Parameters that take part in matrix products."""
        return 4 * width * width

    def count(self, width: int) -> int:
        return self.matrices(width)


Attention = CausalAttention
