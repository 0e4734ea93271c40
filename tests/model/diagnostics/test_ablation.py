"""The rise of the loss without a branch, against a model whose weights switch that branch off."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from model.batches import Batch
from model.diagnostics.ablation import BRANCHES, ablation
from model.parts.feedforward import GELUFeedForward
from model.transformer import ModelConfig, Transformer

CONFIG = ModelConfig(layers=2, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(24))


def loss(model: Transformer, batch: Batch) -> float:
    with torch.no_grad():
        return nn.functional.cross_entropy(model(batch.inputs_BT).flatten(0, 1), batch.targets_BT.flatten()).item()


@torch.no_grad()
def without(model: Transformer, layer: int, branch: str) -> Transformer:
    silenced = copy.deepcopy(model)
    for parameter in silenced.blocks[layer].get_submodule(branch).get_submodule("output").parameters():
        parameter.zero_()
    return silenced


def test_a_rise_is_that_of_a_model_whose_branch_has_no_output() -> None:
    tokens = torch.randint(12, (6, 9), generator=torch.Generator().manual_seed(0))
    batch, model = Batch(tokens[:, :-1], tokens[:, 1:]), CONFIG.build(seed=0)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):  # large enough to matter, each by as much
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number)) / 4)
    model = without(model, 1, "feedforward")
    rises_L2 = ablation(model, batch)
    whole = loss(model, batch)
    expected = [[loss(without(model, layer, branch), batch) - whole for branch in BRANCHES] for layer in range(2)]
    assert rises_L2 == pytest.approx(np.array(expected), abs=1e-5)
    assert rises_L2[1][BRANCHES.index("feedforward")] == 0
    assert np.count_nonzero(np.abs(rises_L2) > 1e-3) == 3
    assert loss(model, batch) == whole  # nothing stays switched off
