"""Parameters and FLOPs from a config alone, without building anything."""

from dataclasses import dataclass

from model.transformer import ModelConfig


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by what they belong to; one layer's share is the same in every layer."""

    embedding: int
    position: int
    attention_per_layer: int
    feedforward_per_layer: int
    norms_per_layer: int
    head: int
    layers: int

    @property
    def per_layer(self) -> int:
        return self.attention_per_layer + self.feedforward_per_layer + self.norms_per_layer

    @property
    def total(self) -> int:
        return self.embedding + self.position + self.layers * self.per_layer + self.head


def parameters(config: ModelConfig) -> ParameterCount:
    """The parameters of `config.build(...)`, tied embedding counted once."""
    width = config.d_model
    return ParameterCount(
        embedding=config.vocabulary * width,
        position=config.position.count(width, config.context),
        attention_per_layer=config.attention.count(width),
        feedforward_per_layer=config.feedforward.count(width),
        norms_per_layer=2 * config.norm.count(width),
        head=config.head.count(width, config.vocabulary, config.norm),
        layers=config.layers,
    )


def training_flops_per_token(config: ModelConfig) -> int:
    """Multiply-adds times two of the matrix products of one forward and backward pass, per token.

    6 FLOPs per matrix parameter (2 forward, 4 backward), the output product with the tied embedding included, plus
    12 L T D for the scores and their use over the full square, as PaLM's appendix B counts it (Chowdhery et al. 2022).
    """
    width = config.d_model
    per_layer = config.attention.matrices(width) + config.feedforward.matrices(width)
    matrices = config.layers * per_layer + config.vocabulary * width
    return 6 * matrices + 12 * config.layers * config.context * config.d_model
