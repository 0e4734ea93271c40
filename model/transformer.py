"""The decoder-only Transformer and the sizes that define it."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from model.initializer import Initializer, ScaledNormal
from model.later import LATER
from model.parts.attention import Attention, CausalAttention
from model.parts.block import Placement, PreNorm
from model.parts.feedforward import FeedForward, GELUFeedForward
from model.parts.head import Head, NormedHead
from model.parts.norm import LayerNorm, Norm
from model.parts.position import LearnedPosition, Position


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and one value per family of parts.

    Raises ValueError for sizes that no model can have, and for a width that does not divide into the heads.
    """

    layers: int = 12
    d_model: int = 128
    context: int = 64  # tokens
    vocabulary: int = 1200  # symbols, the unknown one included
    attention: Attention = field(default_factory=CausalAttention)
    feedforward: FeedForward = field(default_factory=GELUFeedForward)
    norm: Norm = field(default_factory=LayerNorm)
    placement: Placement = field(default_factory=PreNorm)
    position: Position = field(default_factory=LearnedPosition)
    initializer: Initializer = field(default_factory=ScaledNormal)
    head: Head = field(default_factory=NormedHead, metadata=LATER)

    def __post_init__(self) -> None:
        for name, least in (("layers", 1), ("d_model", 1), ("context", 2), ("vocabulary", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, but it is {getattr(self, name)}.")
        self.attention.check(self.d_model, self.position)

    def build(self, seed: int) -> "Transformer":
        """A model initialised from the init stream `seed`; the tied embedding is one tensor, so it is drawn once."""
        model = Transformer(self)
        self.initializer.apply(model, self.layers, seed)
        return model


class Transformer(nn.Module):
    """Token ids (B, T) -> logits_BTV.

    The embedding is also the output matrix (tied).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.zeros(config.vocabulary, config.d_model))
        self.position = config.position.build(config.d_model, config.context)
        self.blocks = nn.ModuleList(
            config.placement.build(config.d_model, config.norm, config.attention, config.feedforward, config.position)
            for _ in range(config.layers)
        )
        self.head = config.head.build(config.d_model, config.vocabulary, config.norm)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        x_BTD = self.position(nn.functional.embedding(tokens_BT, self.embedding))
        for block in self.blocks:
            x_BTD = block(x_BTD)
        logits_BTV: Tensor = self.head(x_BTD, self.embedding)
        return logits_BTV
