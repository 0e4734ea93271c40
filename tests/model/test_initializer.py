import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from model.initializer import PlainNormal, ScaledNormal, role
from model.parts.feedforward import GELUFeedForward
from model.recipe import Recipe
from model.transformer import ModelConfig


def test_every_tensor_has_the_distribution_of_its_role() -> None:
    config = ModelConfig(layers=8)
    for name, tensor in config.build(seed=0).named_parameters():
        kind = role(name, tensor)
        if tensor.ndim == 1:
            assert torch.equal(tensor, torch.ones_like(tensor) if kind == "gain" else torch.zeros_like(tensor)), name
            continue
        std = 0.02 / math.sqrt(2 * 8) if name.endswith("output.weight") else 0.02
        error = std / math.sqrt(2 * tensor.numel())  # standard error of an SD of normal draws
        assert tensor.std().item() == pytest.approx(std, abs=5 * error), name
        assert tensor.mean().item() == pytest.approx(0, abs=5 * std / math.sqrt(tensor.numel())), name


def test_two_matrices_a_layer_write_to_the_residual_stream() -> None:
    names = [
        name for name, p in ModelConfig(layers=3).build(0).named_parameters() if role(name, p) == "residual output"
    ]
    assert len(names) == 2 * 3


def test_without_the_scaling_the_draws_are_the_same_and_only_the_residual_outputs_are_larger() -> None:
    scaled = ModelConfig(layers=8)
    plain = replace(scaled, initializer=PlainNormal())
    ours, theirs = (dict(config.build(3).named_parameters()) for config in (plain, scaled))
    for name, tensor in ours.items():
        factor = math.sqrt(2 * 8) if role(name, tensor) == "residual output" else 1.0
        torch.testing.assert_close(tensor, factor * theirs[name], rtol=1e-6, atol=0)
    assert Recipe(plain).program != Recipe(scaled).program


def test_a_seed_is_a_draw() -> None:
    first, again, other = (dict(ModelConfig(layers=1).build(seed).named_parameters()) for seed in (5, 5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embedding"], other["embedding"])


def test_what_two_arms_share_starts_equal() -> None:
    """The embedding and attention of an arm do not depend on how wide its feed-forward is."""
    narrow = ModelConfig(layers=2)
    wide = replace(narrow, feedforward=GELUFeedForward(512))
    a, b = (dict(config.build(3).named_parameters()) for config in (narrow, wide))
    shared = [name for name in a if a[name].shape == b[name].shape]
    assert "blocks.1.attention.query_key_value.weight" in shared
    assert "blocks.1.feedforward.input.weight" not in shared
    assert all(torch.equal(a[name], b[name]) for name in shared)


def test_no_two_tensors_share_a_draw() -> None:
    tensors = dict(ModelConfig(layers=2).build(0).named_parameters())
    assert not torch.equal(
        tensors["blocks.0.attention.query_key_value.weight"], tensors["blocks.1.attention.query_key_value.weight"]
    )


def test_a_tensor_without_a_role_is_an_error() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mystery = nn.Parameter(torch.zeros(2, 2))

    with pytest.raises(AssertionError, match="mystery of shape"):
        ScaledNormal().apply(Odd(), layers=1, seed=0)
