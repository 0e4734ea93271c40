"""Each fault against what a slow hand would make of it, and that the rest of the program copes with it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from model import counting
from model.cohort import Cohort
from model.corpus.text import Corpus
from model.memory import memory
from model.optimizer import AdamW
from model.parts.attention import CausalAttention
from model.parts.block import PreNorm
from model.parts.faulty import (
    AmplifyingResidual,
    BareHead,
    DriftingResidual,
    NormedLogits,
    NormOverPositions,
    ReLUFeedForward,
    RenormedResidual,
    UnprojectedAttention,
)
from model.parts.feedforward import GELUFeedForward
from model.parts.norm import LayerNorm, RMSNorm
from model.parts.position import LearnedPosition, RotaryPosition
from model.recipe import Budget, Member, Recipe
from model.transformer import ModelConfig

HEALTHY = ModelConfig(layers=2, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(24))
FAULTY = {
    "eps": replace(HEALTHY, norm=LayerNorm(eps=1e-2)),
    "amplifying": replace(HEALTHY, placement=AmplifyingResidual()),
    "bare head": replace(HEALTHY, head=BareHead()),
    "ReLU": replace(HEALTHY, feedforward=ReLUFeedForward(24)),
    "unprojected": replace(HEALTHY, attention=UnprojectedAttention()),
    "renormed": replace(HEALTHY, placement=RenormedResidual()),
    "over positions": replace(HEALTHY, norm=NormOverPositions()),
    "normed logits": replace(HEALTHY, head=NormedLogits()),
    "normed logits, RMSNorm": replace(HEALTHY, head=NormedLogits(), norm=RMSNorm()),
    "drifting": replace(HEALTHY, placement=DriftingResidual()),
}
BLOCK = (16, LayerNorm(), CausalAttention(4), GELUFeedForward(24), LearnedPosition())


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def filled(module: nn.Module) -> nn.Module:
    """`module` in float64 with every parameter drawn, so that no gain is one and no bias zero."""
    for i, p in enumerate(module.double().parameters()):
        nn.init.normal_(p, 0.5, 0.5, generator=torch.Generator().manual_seed(i))
    return module


@pytest.fixture(params=FAULTY, ids=str)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    return FAULTY[request.param]


def test_parameters_counted_are_parameters_built(config: ModelConfig) -> None:
    assert counting.parameters(config).total == sum(p.numel() for p in config.build(seed=0).parameters())
    assert counting.training_flops_per_token(config) > 0
    assert memory(Recipe(config), 3).total > 0


def test_nothing_is_raised_and_every_parameter_gets_a_gradient(config: ModelConfig) -> None:
    model, tokens_BT = config.build(seed=0), torch.randint(0, 12, (3, 8), generator=torch.Generator().manual_seed(0))
    nn.functional.cross_entropy(model(tokens_BT).flatten(0, 1), tokens_BT.flatten()).backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]


def test_what_it_leaves_alone_starts_as_in_the_healthy_model(config: ModelConfig) -> None:
    healthy, faulty = (dict(c.build(seed=3).named_parameters()) for c in (HEALTHY, config))
    for name in healthy.keys() & faulty.keys():
        if healthy[name].shape == faulty[name].shape:
            assert torch.equal(healthy[name], faulty[name])


@pytest.mark.parametrize("name", sorted(FAULTY.keys() - {"drifting"}))  # whose rounding no two ways of adding share
def test_in_a_cohort_it_is_the_plain_loop(
    name: str, corpus: Corpus, plain_loop: Callable[[Member], tuple[list[float], list[float]]]
) -> None:
    recipe = Recipe(
        FAULTY[name], AdamW(1e-2, warmup=2), Budget(steps=4, batch=4), precision="fp64", wrong_on_purpose=True
    )
    cohort = Cohort([Member(recipe, seed) for seed in (4, 5)], corpus, "cpu", compiled=False)
    losses, norms = zip(*(cohort.update(step) for step in range(4)), strict=True)
    for index, seed in enumerate((4, 5)):
        expected, expected_norms = plain_loop(Member(recipe, seed))
        assert [loss[index] for loss in losses] == pytest.approx(expected[:-1], abs=1e-9)
        if name != "over positions":  # which the padding of the last held-out window reaches
            assert cohort.score()[index].loss == pytest.approx(expected[-1], abs=1e-9)
        assert [norm[index] for norm in norms] == pytest.approx(expected_norms, abs=1e-9)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_trains_in_both_precisions(config: ModelConfig, precision: str, corpus: Corpus) -> None:
    recipe = Recipe(
        config, AdamW(1e-2, warmup=2), Budget(steps=12, batch=8), precision=precision, wrong_on_purpose=True
    )  # type: ignore[arg-type]
    cohort = Cohort([Member(recipe, seed) for seed in (0, 1)], corpus, "cpu", compiled=False)
    losses = [cohort.update(step)[0] for step in range(12)]
    for first, last in zip(losses[0], losses[-1], strict=True):
        assert last < first - 0.05


def test_norm_over_positions_by_hand() -> None:
    norm, x_BTD = filled(NormOverPositions(eps=1e-3).build(5)), draw(2, 4, 5)
    expected = torch.empty_like(x_BTD)
    for b in range(2):
        for d in range(5):
            column = x_BTD[b, :, d]
            deviation = ((column - column.mean()) ** 2).mean() + 1e-3
            expected[b, :, d] = (column - column.mean()) / deviation**0.5 * norm.gain[d] + norm.bias[d]
    torch.testing.assert_close(norm(x_BTD), expected, rtol=0, atol=1e-12)


def test_norm_over_positions_keeps_the_dtype() -> None:
    assert NormOverPositions().build(5)(draw(2, 4, 5).bfloat16()).dtype == torch.bfloat16


def test_relu_by_hand() -> None:
    layer, x_BTD = filled(ReLUFeedForward(8).build(5)), draw(2, 3, 5)
    hidden = (x_BTD @ layer.input.weight.T + layer.input.bias).clamp(min=0)
    expected = hidden @ layer.output.weight.T + layer.output.bias
    torch.testing.assert_close(layer(x_BTD), expected, rtol=0, atol=1e-12)


def test_a_unit_of_relu_below_every_input_gets_no_gradient_and_one_of_gelu_does() -> None:
    x_BTD = draw(4, 8, 16, dtype=torch.float32)
    for part, dead in ((ReLUFeedForward(24), True), (GELUFeedForward(24), False)):
        layer = ModelConfig(d_model=16, feedforward=part).build(seed=0).blocks[0].feedforward
        with torch.no_grad():
            layer.input.bias[:6] = -2
        layer(x_BTD).square().sum().backward()
        assert bool((layer.input.weight.grad[:6] == 0).all()) is dead
        assert (layer.input.weight.grad[6:] != 0).any(dim=1).all()


@pytest.mark.parametrize("position", [LearnedPosition(), RotaryPosition()])
def test_unprojected_attention_is_one_whose_projection_is_the_identity(
    position: LearnedPosition | RotaryPosition,
) -> None:
    healthy, faulty = (filled(part(4).build(16, position)) for part in (CausalAttention, UnprojectedAttention))
    with torch.no_grad():
        healthy.output.weight.copy_(torch.eye(16))
    x_BTD = draw(2, 6, 16)
    torch.testing.assert_close(faulty(x_BTD), healthy(x_BTD), rtol=0, atol=1e-12)


def test_amplified_stream_by_hand() -> None:
    block, x_BTD = filled(AmplifyingResidual(factor=3.0).build(*BLOCK)), draw(2, 8, 16)
    middle = 3 * x_BTD + block.attention(block.attention_norm(x_BTD))
    expected = 3 * middle + block.feedforward(block.feedforward_norm(middle))
    torch.testing.assert_close(block(x_BTD), expected, rtol=0, atol=1e-12)


def test_renormed_stream_is_a_healthy_block_behind_a_norm() -> None:
    faulty, healthy = (filled(placement.build(*BLOCK)) for placement in (RenormedResidual(), PreNorm()))
    x_BTD = draw(2, 8, 16)
    normed = nn.LayerNorm(16, elementwise_affine=False, dtype=torch.float64)(x_BTD)
    torch.testing.assert_close(faulty(x_BTD), healthy(normed), rtol=0, atol=1e-12)


def test_drifting_stream_by_hand_and_its_dtype() -> None:
    faulty, healthy = (filled(placement.build(*BLOCK)).float() for placement in (DriftingResidual(), PreNorm()))
    x_BTD = draw(2, 8, 16, dtype=torch.float32)
    middle = (x_BTD + faulty.attention(faulty.attention_norm(x_BTD))).bfloat16()
    expected = middle.float() + faulty.feedforward(faulty.feedforward_norm(middle).float())
    y_BTD = faulty(x_BTD)
    assert y_BTD.dtype == torch.float32
    torch.testing.assert_close(y_BTD, expected, rtol=0, atol=1e-6)
    off = (y_BTD - healthy(x_BTD)).abs()
    assert 0 < off.max() < 0.1 * y_BTD.abs().max()
    with torch.autocast("cpu", torch.bfloat16):
        assert faulty(x_BTD).dtype == torch.bfloat16
        assert healthy(x_BTD).dtype == torch.float32


def test_heads_by_hand() -> None:
    x_BTD, embedding_VD = draw(2, 3, 5), draw(7, 5)
    logits_BTV = torch.einsum("btd,vd->btv", x_BTD, embedding_VD)
    bare, normed = BareHead().build(5, 7, LayerNorm()), filled(NormedLogits().build(5, 7, LayerNorm()))
    torch.testing.assert_close(bare(x_BTD, embedding_VD), logits_BTV, rtol=0, atol=1e-12)
    pytorch = nn.LayerNorm(7, dtype=torch.float64)
    pytorch.load_state_dict({"weight": normed.norm.gain, "bias": normed.norm.bias})
    torch.testing.assert_close(normed(x_BTD, embedding_VD), pytorch(logits_BTV), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AmplifyingResidual(1.0), "by a factor above 1"),
        (lambda: AmplifyingResidual(float("inf")), "by a factor above 1"),
        (lambda: ReLUFeedForward(0), "d_ff must be at least 1"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
