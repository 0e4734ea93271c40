"""How a block joins its branches to the stream: where its two norms stand, and whether the stream passes them by."""

from dataclasses import dataclass

from torch import Tensor, nn

from model.parts.attention import Attention
from model.parts.feedforward import FeedForward
from model.parts.norm import Norm
from model.parts.position import Position


class _Block(nn.Module):
    def __init__(
        self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward, position: Position
    ) -> None:
        super().__init__()
        self.attention_norm = norm.build(width)
        self.attention = attention.build(width, position)
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


class _NoResidualBlock(_Block):
    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTD = self.attention(self.attention_norm(x_BTD))
        y_BTD: Tensor = self.feedforward(self.feedforward_norm(x_BTD))
        return y_BTD


@dataclass(frozen=True)
class PreNorm:
    """Each branch reads a normalised stream; the stream itself passes untouched (Xiong et al. 2020, figure 1b)."""

    def build(
        self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward, position: Position
    ) -> nn.Module:
        return _PreNormBlock(width, norm, attention, feedforward, position)


@dataclass(frozen=True)
class PostNorm:
    """The stream is normalised after each branch is added (Vaswani et al. 2017; Xiong et al. 2020, figure 1a)."""

    def build(
        self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward, position: Position
    ) -> nn.Module:
        return _PostNormBlock(width, norm, attention, feedforward, position)


@dataclass(frozen=True)
class NoResidual:
    """Pre-norm without the stream: each branch's output replaces what it read, so nothing passes a layer by."""

    def build(
        self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward, position: Position
    ) -> nn.Module:
        return _NoResidualBlock(width, norm, attention, feedforward, position)


Placement = PreNorm | PostNorm | NoResidual
