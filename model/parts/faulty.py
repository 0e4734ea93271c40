"""Parts with a fault on purpose: what goes wrong in Transformers without an error, to see whether it is found.

Nobody wants these in a model, ReLU aside. Each is a healthy part with one thing wrong, and inherits all the rest.
Section 2.15 of the source chapter describes them; a norm's eps that is too large is ``LayerNorm(eps=1e-2)``.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.parts.attention import Attention, CausalAttention
from model.parts.block import PreNorm, _PreNormBlock
from model.parts.feedforward import FeedForward, GELUFeedForward, _FeedForward
from model.parts.head import NormedHead
from model.parts.norm import LayerNorm, Norm, _Normalisation
from model.parts.position import Position


class _NormOverPositions(_Normalisation):
    def forward(self, x_BTD: Tensor) -> Tensor:
        assert self.bias is not None  # a LayerNorm's
        x = x_BTD.to(torch.promote_types(x_BTD.dtype, torch.float32))
        y = nn.functional.layer_norm(x.mT, x.shape[1:2], eps=self.eps).mT * self.gain
        return (y + self.bias).to(x_BTD.dtype)


@dataclass(frozen=True)
class NormOverPositions(LayerNorm):
    """The wrong axis: each feature is normalised over the sequence, so that every position sees all others, the later
    ones too, and a shorter sequence gives other numbers."""

    def build(self, width: int) -> nn.Module:
        return _NormOverPositions(width, self.eps, centred=True)


class _ReLU(_FeedForward):
    def forward(self, x_BTD: Tensor) -> Tensor:
        y_BTD: Tensor = self.output(nn.functional.relu(self.input(x_BTD)))
        return y_BTD


@dataclass(frozen=True)
class ReLUFeedForward(GELUFeedForward):
    """ReLU in place of GELU. A unit that is below zero on every input gives nothing, so nothing comes back to it, and
    it stays there. Nothing more is needed: training leaves 9 to 23 % of a layer's units so (see LOG)."""

    def build(self, width: int) -> nn.Module:
        return _ReLU(width, self.d_ff)


@dataclass(frozen=True)
class UnprojectedAttention(CausalAttention):
    """No output projection: each head's mean goes into its own share of the stream, unmixed. The shapes agree."""

    def build(self, width: int, position: Position) -> nn.Module:
        module = super().build(width, position)
        module.output = nn.Identity()
        return module

    def matrices(self, width: int) -> int:
        return 3 * width * width


class _AmplifyingBlock(_PreNormBlock):
    def __init__(self, factor: float, *parts: object) -> None:
        super().__init__(*parts)  # type: ignore[arg-type]
        self.factor = factor

    def forward(self, x_BTD: Tensor) -> Tensor:
        x_BTD = self.factor * x_BTD + self.attention(self.attention_norm(x_BTD))
        y_BTD: Tensor = self.factor * x_BTD + self.feedforward(self.feedforward_norm(x_BTD))
        return y_BTD


@dataclass(frozen=True)
class AmplifyingResidual(PreNorm):
    """The stream is taken `factor` times at each sum, twice when a branch that adds its input already is added to that
    input again: it grows by factor^2 a layer without bound. A healthy pre-norm stream grows too: before training 48
    layers make it about 8 times as wide with plain first weights, 1.4 times with scaled ones.

    Raises ValueError for a factor that does not amplify.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        if not 1 < self.factor < math.inf:
            raise ValueError(f"A stream is amplified by a factor above 1, but it is {self.factor}.")

    def build(
        self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward, position: Position
    ) -> nn.Module:
        return _AmplifyingBlock(self.factor, width, norm, attention, feedforward, position)


class _RenormedBlock(_PreNormBlock):
    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(nn.functional.layer_norm(x_BTD, x_BTD.shape[-1:]))


@dataclass(frozen=True)
class RenormedResidual(PreNorm):
    """One more norm, without gain and bias, before each block: on the stream itself, where nothing should stand."""

    def build(
        self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward, position: Position
    ) -> nn.Module:
        return _RenormedBlock(width, norm, attention, feedforward, position)


class _DriftingBlock(_PreNormBlock):
    def forward(self, x_BTD: Tensor) -> Tensor:
        before = x_BTD.dtype
        x_BTD = (x_BTD + self.attention(self.attention_norm(x_BTD))).bfloat16()
        y_BTD: Tensor = x_BTD + self.feedforward(self.feedforward_norm(x_BTD).to(before))
        return y_BTD


@dataclass(frozen=True)
class DriftingResidual(PreNorm):
    """The stream is cast to bfloat16 after each attention and not cast back. Where products are in float32 the next sum
    promotes it again, in silence; where they are in bfloat16 it stays so from there on."""

    def build(
        self, width: int, norm: Norm, attention: Attention, feedforward: FeedForward, position: Position
    ) -> nn.Module:
        return _DriftingBlock(width, norm, attention, feedforward, position)


class _BareHead(nn.Module):
    def forward(self, x_BTD: Tensor, embedding_VD: Tensor) -> Tensor:
        return nn.functional.linear(x_BTD, embedding_VD)


@dataclass(frozen=True)
class BareHead(NormedHead):
    """No final norm: logits take on whatever scale the stream has."""

    def build(self, width: int, vocabulary: int, norm: Norm) -> nn.Module:
        return _BareHead()

    def count(self, width: int, vocabulary: int, norm: Norm) -> int:
        return 0


class _NormedLogits(nn.Module):
    def __init__(self, vocabulary: int, norm: Norm) -> None:
        super().__init__()
        self.norm = norm.build(vocabulary)

    def forward(self, x_BTD: Tensor, embedding_VD: Tensor) -> Tensor:
        logits_BTV: Tensor = self.norm(nn.functional.linear(x_BTD, embedding_VD))
        return logits_BTV


@dataclass(frozen=True)
class NormedLogits(NormedHead):
    """The final norm behind the output matrix: it normalises the logits over the symbols, so that every position's have
    the same scale, whatever the model knows there."""

    def build(self, width: int, vocabulary: int, norm: Norm) -> nn.Module:
        return _NormedLogits(vocabulary, norm)

    def count(self, width: int, vocabulary: int, norm: Norm) -> int:
        return norm.count(vocabulary)
