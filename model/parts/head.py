"""From the stream to logits: the final norm and the output matrix, which is the embedding (tied)."""

from dataclasses import dataclass

from torch import Tensor, nn

from model.parts.norm import Norm


class _NormedHead(nn.Module):
    """x_BTD, embedding_VD -> logits_BTV."""

    def __init__(self, width: int, norm: Norm) -> None:
        super().__init__()
        self.norm = norm.build(width)

    def forward(self, x_BTD: Tensor, embedding_VD: Tensor) -> Tensor:
        return nn.functional.linear(self.norm(x_BTD), embedding_VD)


@dataclass(frozen=True)
class NormedHead:
    """The stream normalised, then its product with every symbol's embedding (Radford et al. 2019, section 2.3).

    The norm stands for both placements of the blocks' norms, so that pre-norm and post-norm have the same parameters.
    """

    def build(self, width: int, vocabulary: int, norm: Norm) -> nn.Module:
        return _NormedHead(width, norm)

    def count(self, width: int, vocabulary: int, norm: Norm) -> int:
        return norm.count(width)


Head = NormedHead
