"""What drives a neuron: that only places count where it is active."""

import pytest
import torch

from model.batches import Batch
from model.diagnostics.neurons import strongest_neurons
from model.parts.feedforward import GELUFeedForward
from model.transformer import ModelConfig, Transformer

CONFIG = ModelConfig(layers=1, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(24))
TOKENS = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8], [2, 3, 3, 9, 10, 11, 1, 1]])


@pytest.fixture
def model() -> Transformer:
    """Slot 0 fires at the letter c and is far below zero elsewhere, where GELU gives -0.0; the others give -0.15."""
    model = CONFIG.build(seed=0)
    with torch.no_grad():
        model.embedding.copy_(torch.eye(16)[:12])
        model.position.embedding.zero_()
        block = model.blocks[0]
        block.attention.output.weight.zero_()
        block.feedforward.input.weight.zero_()
        block.feedforward.input.weight[0, 3] = 20
        block.feedforward.input.bias.fill_(-0.5)
        block.feedforward.input.bias[0] = -40
    return model


def test_a_slot_is_driven_by_the_characters_that_activate_it(model: Transformer) -> None:
    """And not by those that hold it down, although three places are fewer than are counted at most."""
    (neuron,) = strongest_neurons(model, Batch(TOKENS, TOKENS), "abcdefghijk")
    assert (neuron.layer, neuron.slot) == (0, 0)
    assert neuron.peak == pytest.approx(20 * (15 / 16) / (15 / 256) ** 0.5 - 40, rel=1e-2)
    assert neuron.characters == (("c", 3),)
    assert set(neuron.contexts) == {"abc", "bc", "bcc"}


def test_a_slot_that_nothing_activates_is_not_shown(model: Transformer) -> None:
    others = torch.where(TOKENS == 3, 4, TOKENS)
    assert strongest_neurons(model, Batch(others, others), "abcdefghijk") == []
