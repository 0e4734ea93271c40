"""Measurements against closed forms, slow loops and faults whose effect is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from model.batches import IGNORED, Batch
from model.diagnostics import Anatomy, measure, summary
from model.diagnostics.measure import adjacent_kl, entropy
from model.parts.attention import attention_weights
from model.parts.block import NoResidual, PostNorm
from model.parts.faulty import BareHead, NormedLogits, NormOverPositions, RenormedResidual, UnprojectedAttention
from model.parts.feedforward import GELUFeedForward
from model.parts.norm import LayerNorm, RMSNorm
from model.transformer import ModelConfig, Transformer

CONFIG = ModelConfig(layers=3, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(24))


def batch(windows: int = 6, config: ModelConfig = CONFIG) -> Batch:
    tokens = torch.randint(config.vocabulary, (windows, 9), generator=torch.Generator().manual_seed(0))
    return Batch(tokens[:, :-1], tokens[:, 1:])


@pytest.fixture
def model() -> Transformer:
    return CONFIG.build(seed=0)


def test_the_curves_are_these_numbers_of_a_measurement(model: Transformer) -> None:
    """Each of twelve from an array of its own: lowest, highest and mean are apart, and NaN is left out."""
    found = replace(
        measure(model, batch()),
        activation_R=np.array([9.0, 2.0, 3.0, 5.0]),
        gradient_R=np.array([9.0, 8.0, 3.0, 2.0]),
        adjacent_kl_T=np.array([0.1, 0.3]),
        entropy_LH=np.array([[0.2, 0.4], [np.nan, 0.9]]),
        norm_scale_N=np.array([0.7, 1.0]),
        norm_input_mean_N=np.array([1.0, 3.0]),
        norm_input_std_N=np.array([4.0, 4.0]),
        rate_LF=np.array([[0.0, 0.6, 0.2, 0.4], [0.0, 0.0, 0.1, 0.3]]),
        key_cosine_LF=np.array([[0.95, 0.95, 0.1, 0.2], [0.3, 0.4, 0.5, 0.6]]),
        logit_std=1.7,
    )
    assert summary(found) == pytest.approx(
        {
            "activation_ratio": 2.5,
            "gradient_ratio": 4.0,
            "adjacent_kl": 0.2,
            "attention_entropy": 0.5,
            "attention_entropy_lowest": 0.2,
            "attention_entropy_highest": 0.9,
            "norm_scale": 0.7,
            "norm_input_mean": 0.5,
            "dead_slots": 0.375,
            "duplicate_slots": 0.25,
            "activation_rate": 0.2,
            "logit_std": 1.7,
        }
    )


def test_entropy_of_a_plain_average_is_one_and_of_one_position_zero() -> None:
    uniform_TS = torch.ones(8, 8).tril() / torch.arange(1.0, 9)[:, None]
    weights_BHTS = torch.stack([uniform_TS, torch.eye(8)]).expand(3, 2, 8, 8)
    np.testing.assert_allclose(entropy(weights_BHTS), [1, 0], atol=1e-6)


def test_entropy_by_a_slow_loop() -> None:
    draws = torch.Generator().manual_seed(1)
    q, k = (torch.randn(2, 3, 5, 4, generator=draws, dtype=torch.float64) for _ in range(2))
    weights_BHTS = attention_weights(q, k)
    for head in range(3):
        found = [
            -sum(w * math.log(w) for w in weights_BHTS[b, head, t, : t + 1].tolist()) / math.log(t + 1)
            for b in range(2)
            for t in range(1, 5)
        ]
        assert entropy(weights_BHTS)[head] == pytest.approx(sum(found) / len(found), rel=1e-12)


def test_kl_of_equal_distributions_is_zero_and_of_two_known_ones_is_theirs() -> None:
    assert adjacent_kl(torch.randn(1, 1, 7).expand(2, 4, 7)) == pytest.approx([0, 0, 0], abs=1e-6)
    logits = torch.tensor([[[0.25, 0.75], [0.5, 0.5]]]).log()
    assert adjacent_kl(logits) == pytest.approx([0.5 * math.log(2) + 0.5 * math.log(2 / 3)])


def test_a_model_whose_branches_write_nothing_passes_the_stream_on(model: Transformer) -> None:
    with torch.no_grad():
        for block in model.blocks:
            for branch in (block.attention, block.feedforward):
                branch.output.weight.zero_()
    found = measure(model, batch())
    assert found.activation_R == pytest.approx([found.activation_R[0]] * 4)
    assert found.gradient_R == pytest.approx([found.gradient_R[0]] * 4)
    assert (found.activation_ratio, found.gradient_ratio) == pytest.approx((1, 1))
    for name in ("attention_write_L", "feedforward_write_L", "bypass_gap_L"):
        assert (getattr(found, name) == 0).all()
    assert found.bypass_factor_L == pytest.approx(1)


def test_the_profile_and_the_gradients_are_those_of_a_plain_backward_pass(model: Transformer) -> None:
    model, data = model.double(), batch()
    found = measure(model, data)
    x = model.position(nn.functional.embedding(data.inputs_BT, model.embedding))
    stream = [x]
    for block in model.blocks:
        stream.append(block(stream[-1]))
    for x in stream:
        x.retain_grad()
    logits = model.head(stream[-1], model.embedding)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), data.targets_BT.flatten())
    loss.backward()
    assert found.loss == pytest.approx(loss.item(), rel=1e-12)
    assert found.activation_R == pytest.approx([x.detach().numpy().std() for x in stream], rel=1e-12)
    assert found.gradient_R == pytest.approx([x.grad.numpy().std() for x in stream if x.grad is not None], rel=1e-12)
    norms = {name: p.grad.norm().item() for name, p in model.named_parameters() if p.grad is not None}
    assert found.gradient_norms == pytest.approx(norms, rel=1e-12)
    assert found.logit_std == pytest.approx(logits.detach().numpy().std(axis=-1).mean(), rel=1e-12)
    roles = found.gradient_norm_by_role
    assert roles["embedding"] == norms["embedding"]
    same = [norm**2 for name, norm in norms.items() if name.endswith("attention.output.weight")]
    assert roles["attention.output.weight"] == pytest.approx(math.sqrt(sum(same)))
    assert sum(norm**2 for norm in roles.values()) == pytest.approx(sum(norm**2 for norm in norms.values()))


def test_a_memory_set_by_hand(model: Transformer) -> None:
    """Of 24 slots 6 are never active and 18 always; 4 have the same key, 2 opposite ones, the others none in common."""
    layer = model.blocks[1].feedforward
    with torch.no_grad():
        layer.input.weight.copy_(torch.cat([torch.eye(16)[:1].expand(4, -1), torch.eye(16)[1:14], torch.zeros(7, 16)]))
        layer.input.weight[17] = -layer.input.weight[16]
        layer.input.weight *= 1e-3
        layer.input.bias.copy_(torch.cat([torch.full((6,), -9.0), torch.full((18,), 2.0)]))
    found = measure(model, batch())
    assert found.dead[1] == 0.25
    assert found.rate_LF[1].tolist() == [0] * 6 + [1] * 18
    assert found.strength_LF[1, :6].tolist() == [0] * 6
    assert found.strength_LF[1, 6:] == pytest.approx(nn.functional.gelu(torch.tensor(2.0)).item(), rel=0.01)
    assert found.duplicates()[1] == pytest.approx(4 / 24)
    assert found.key_cosine_LF[1, :4] == pytest.approx(1)
    assert found.key_cosine_LF[1, 4:16] == pytest.approx(0)
    assert found.key_cosine_mean_L[1] == pytest.approx((4 * 3 - 2) / (24 * 23))
    assert found.peak_LF[1, 0] <= 0 < found.peak_LF[1, 23]
    assert found.zeros_L.tolist()[0] == 0


def test_what_a_norm_reads(model: Transformer) -> None:
    """A stream of known mean and deviation and an eps as large as its variance: what comes out has scale 1 / sqrt 2."""
    config = replace(CONFIG, norm=LayerNorm(eps=0.25))
    model = config.build(0)
    with torch.no_grad():
        model.embedding.copy_(torch.tensor([1.5, 0.5]).repeat(12, 8))
        model.position.embedding.zero_()
        model.blocks[0].attention_norm.gain.fill_(7.0)
        model.blocks[0].attention_norm.bias.fill_(3.0)
    found = measure(model, batch())
    assert found.norm_names[0] == "blocks.0.attention_norm"
    assert len(found.norm_names) == 2 * 3 + 1
    assert found.norm_eps_N.tolist() == [0.25] * 7
    assert found.norm_input_mean_N[0] == pytest.approx(1)
    assert found.norm_input_std_N[0] == pytest.approx(0.5)
    assert found.norm_scale_N[0] == pytest.approx(1 / math.sqrt(2))
    assert found.norm_uneven_N[0] == pytest.approx(0, abs=1e-6)
    assert measure(replace(CONFIG, norm=RMSNorm()).build(0), batch()).norm_scale_N == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "measured", "low", "high"),
    [
        ({}, lambda a: a.bypass_gap_L.max(), 0, 1e-6),
        ({"placement": PostNorm()}, lambda a: a.bypass_gap_L.max(), 0.9, 1.1),
        ({"placement": NoResidual()}, lambda a: a.bypass_gap_L.min(), 0.1, 100),
        ({"placement": RenormedResidual()}, lambda a: a.bypass_gap_L[0], 0.5, 1.1),
        ({}, lambda a: a.projection_gap_L.min(), 0.5, 2),
        ({"attention": UnprojectedAttention()}, lambda a: a.projection_gap_L.max(), 0, 1e-6),
        ({}, lambda a: a.norm_uneven_N.max(), 0, 0.02),
        ({"norm": NormOverPositions()}, lambda a: a.norm_uneven_N.min(), 0.1, 2),
        ({}, lambda a: a.head_degree, 0, 0.03),
        ({"head": BareHead()}, lambda a: a.head_degree, 1, 1),
        ({}, lambda a: a.logit_spread, 0.05, 2),
        ({}, lambda a: a.norm_width_N.max(), 16, 16),
        ({"head": NormedLogits()}, lambda a: a.norm_width_N.min(), 12, 12),
    ],
)
def test_a_fault_shows_where_it_is(changes: dict[str, object], measured: object, low: float, high: float) -> None:
    found = measure(replace(CONFIG, **changes).build(0), batch())  # type: ignore[arg-type]
    assert low - 1e-6 <= measured(found) <= high + 1e-6  # type: ignore[operator]


def test_it_changes_nothing_and_leaves_nothing(model: Transformer) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random, threads = torch.get_rng_state(), torch.get_num_threads()
    with torch.no_grad():  # it asks for gradients by itself
        measure(model, batch())
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.get_num_threads() == threads


def test_precisions_agree_and_are_told() -> None:
    found: dict[str, Anatomy] = {"fp32": measure(CONFIG.build(0), batch())}
    with torch.autocast("cpu", torch.bfloat16):
        found["bf16"] = measure(CONFIG.build(0), batch())
    found["fp64"] = measure(CONFIG.build(0).double(), batch())
    exact = summary(found["fp64"])
    assert summary(found["fp32"]) == pytest.approx(exact, rel=1e-4, abs=1e-6)
    assert summary(found["bf16"]) == pytest.approx(exact, rel=0.03, abs=0.01)
    assert set(found["bf16"].dtypes_R) == {"float32"}
    assert found["bf16"].logit_dtype == "bfloat16"
    assert set(found["fp64"].norm_dtypes_N) == {"float64"}


def test_targets_that_are_not_asked_do_not_count(model: Transformer) -> None:
    data = batch()
    first = Batch(data.inputs_BT, data.targets_BT.where(torch.arange(8) == 0, IGNORED))
    alone = Batch(data.inputs_BT[:, :1], data.targets_BT[:, :1])
    assert measure(model, first).loss == pytest.approx(measure(model, alone).loss, rel=1e-5)


def test_a_part_that_is_not_there_is_nan(model: Transformer) -> None:
    for block in model.blocks:
        block.attention, block.feedforward = nn.Identity(), nn.Identity()
    found = summary(measure(model, batch()))
    assert all(math.isnan(found[name]) for name in ("attention_entropy", "dead_slots", "activation_rate"))
    assert math.isfinite(found["activation_ratio"])


def test_plain_values_are_those_of_json(model: Transformer) -> None:
    import json

    found = measure(model, batch())
    assert json.loads(json.dumps(found.plain()))["rate_LF"] == found.rate_LF.tolist()
