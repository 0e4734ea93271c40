"""Where a block normalises: the placement of its two norms around attention and feed-forward."""

from dataclasses import dataclass

from torch import Tensor, nn

from model.parts.attention import Attention
from model.parts.feedforward import FeedForward
from model.parts.norm import Norm


class _Block(nn.Module):
    def __init__(self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward) -> None:
        super().__init__()
        self.attention_norm = norm.build(width)
        self.attention = attention.build(width)
        self.feedforward_norm = norm.build(width)
        self.feedforward = feedforward.build(width)


class _PreNormBlock(_Block):
    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTD = x_BTD + self.attention(self.attention_norm(x_BTD))
        y_BTD: Tensor = x_BTD + self.feedforward(self.feedforward_norm(x_BTD))
        return y_BTD


class _PostNormBlock(_Block):
    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTD = self.attention_norm(x_BTD + self.attention(x_BTD))
        y_BTD: Tensor = self.feedforward_norm(x_BTD + self.feedforward(x_BTD))
        return y_BTD


@dataclass(frozen=True)
class PreNorm:
    """Each branch reads a normalised stream; the stream itself passes untouched (Xiong et al. 2020, figure 1b)."""

    def build(self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward) -> nn.Module:
        return _PreNormBlock(width, norm, attention, feedforward)


@dataclass(frozen=True)
class PostNorm:
    """The stream is normalised after each branch is added (Vaswani et al. 2017; Xiong et al. 2020, figure 1a)."""

    def build(self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward) -> nn.Module:
        return _PostNormBlock(width, norm, attention, feedforward)


Placement = PreNorm | PostNorm
