"""The parameter counts that the chapter prints, to the digit."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model import counting
from model.parts.attention import CausalAttention
from model.parts.feedforward import GELUFeedForward
from model.parts.norm import RMSNorm
from model.transformer import ModelConfig


def four_layers(d_model: int, d_ff: int) -> ModelConfig:
    return ModelConfig(layers=4, d_model=d_model, feedforward=GELUFeedForward(d_ff))


@pytest.mark.parametrize(
    ("config", "total"),
    [
        (ModelConfig(), 1_745_664),
        (ModelConfig(norm=RMSNorm()), 1_742_464),
        (four_layers(128, 128), 558_336),
        (four_layers(128, 256), 689_920),
        (four_layers(128, 512), 953_088),
        (four_layers(96, 552), 697_056),
        (four_layers(112, 392), 697_536),
    ],
)
def test_totals(config: ModelConfig, total: int) -> None:
    assert counting.parameters(config).total == total


@pytest.mark.parametrize(
    ("d_model", "d_ff", "per_layer", "share"),
    [
        (128, 128, 98_816, 0.332),
        (128, 256, 131_584, 0.498),
        (128, 512, 197_120, 0.665),
        (112, 392, None, 0.634),
        (96, 552, None, 0.740),
    ],
)
def test_one_layer_as_the_chapter_counts_it(d_model: int, d_ff: int, per_layer: int | None, share: float) -> None:
    """The chapter leaves the feed-forward biases out of a layer's count, while its totals include them."""
    count = counting.parameters(four_layers(d_model, d_ff))
    biases = d_ff + d_model
    layer, feedforward = count.per_layer - biases, count.feedforward_per_layer - biases
    assert per_layer in (None, layer)
    assert feedforward / layer == pytest.approx(share, abs=5e-4)


def test_a_model_of_a_hundred_million() -> None:
    config = ModelConfig(
        layers=24, d_model=512, vocabulary=50_000, attention=CausalAttention(8), feedforward=GELUFeedForward(2048)
    )
    count = counting.parameters(config)
    matrices = 24 * (config.attention.matrices(512) + config.feedforward.matrices(512))
    assert matrices == 75_497_472
    assert count.embedding == 25_600_000
    assert matrices / count.total == pytest.approx(0.746, abs=1e-3)
    assert count.embedding / count.total == pytest.approx(0.253, abs=1e-3)


def test_flops_are_those_that_pytorch_counts() -> None:
    """All matrix products of a forward and backward pass; PyTorch counts the scores over the full square too."""
    config = replace(ModelConfig(layers=2, vocabulary=50), context=16)
    model = config.build(seed=0)
    tokens_BT = torch.zeros(3, 16, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        torch.nn.functional.cross_entropy(model(tokens_BT).flatten(0, 1), tokens_BT.flatten()).backward()
    assert counter.get_total_flops() == 3 * 16 * counting.training_flops_per_token(config)
