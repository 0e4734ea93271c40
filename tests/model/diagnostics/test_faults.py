"""Each fault is named from a small trained model that nobody described, and nothing is named in a healthy one."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from model.batches import training_batch
from model.checks import CHECKS
from model.corpus.text import Corpus
from model.diagnostics import faults as named
from model.diagnostics import measure
from model.diagnostics.faults import FAULTS, faults
from model.diagnostics.joints import Joints, silent, touch
from model.diagnostics.slots import idle
from model.initializer import ScaledNormal
from model.optimizer import AdamW
from model.parts.attention import CausalAttention
from model.parts.block import NoResidual, PostNorm
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
from model.parts.position import RotaryPosition
from model.recipe import Budget, Member, Precision, Recipe
from model.train import Result, train
from model.transformer import ModelConfig

# First weights wide enough that 16 features carry what 128 do at the usual 0.02.
HEALTHY = ModelConfig(
    layers=2, d_model=16, context=8, vocabulary=12, feedforward=GELUFeedForward(24), initializer=ScaledNormal(0.06)
)
FAULTY = {
    named.EPS: replace(HEALTHY, norm=LayerNorm(eps=1e-2)),
    named.UNBOUNDED: replace(HEALTHY, placement=AmplifyingResidual()),
    named.NO_FINAL_NORM: replace(HEALTHY, head=BareHead()),
    named.DEAD: replace(HEALTHY, feedforward=ReLUFeedForward(24)),
    named.UNPROJECTED: replace(HEALTHY, attention=UnprojectedAttention()),
    named.BETWEEN: replace(HEALTHY, placement=RenormedResidual()),
    named.WRONG_AXIS: replace(HEALTHY, norm=NormOverPositions()),
    named.AFTER_HEAD: replace(HEALTHY, head=NormedLogits()),
    named.DRIFT: replace(HEALTHY, placement=DriftingResidual()),
}
SOUND = {
    "LayerNorm": HEALTHY,
    "RMSNorm": replace(HEALTHY, norm=RMSNorm()),
    "post-norm": replace(HEALTHY, placement=PostNorm()),
    "post-norm without a final norm, which its last block has": replace(HEALTHY, placement=PostNorm(), head=BareHead()),
    "rotary": replace(HEALTHY, position=RotaryPosition()),
    "one head": replace(HEALTHY, attention=CausalAttention(1)),
    "one layer": replace(HEALTHY, layers=1),
    "ReLU that has killed nothing": replace(HEALTHY, feedforward=ReLUFeedForward(24)),
    "no residual": replace(HEALTHY, placement=NoResidual()),
}


def trained(config: ModelConfig, corpus: Corpus, precision: Precision = "fp32", rate: float = 1e-2) -> Result:
    recipe = Recipe(config, AdamW(rate, warmup=5), Budget(steps=30, batch=8), precision=precision)
    (result,) = train([Member(replace(recipe, wrong_on_purpose=True, diagnosed=True), 0)], corpus)
    return result


def points(result: Result, kind: str) -> dict[str, float]:
    return {p.name.removeprefix(kind): p.value for p in result.curve if p.name.startswith(kind)}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_and_no_other_is_named(fault: str, precision: Precision, corpus: Corpus) -> None:
    """ReLU kills by updates that are too large, which so small a model takes at a higher rate."""
    rate = 0.3 if fault == named.DEAD else 1e-2
    alarms = points(trained(FAULTY[fault], corpus, precision, rate), "alarm ")
    assert [name for name, raised in alarms.items() if raised] == [fault]
    assert list(alarms) == list(FAULTS)


@pytest.mark.parametrize("name", SOUND)
def test_a_healthy_model_raises_no_alarm(name: str, corpus: Corpus) -> None:
    assert not any(points(trained(SOUND[name], corpus), "alarm ").values())


def test_what_drifts_without_a_residual_in_bf16_is_found(corpus: Corpus) -> None:
    """Without sums the stream is whatever the last branch gives: bfloat16, after an embedding in float32."""
    alarms = points(trained(SOUND["no residual"], corpus, "bf16"), "alarm ")
    assert [name for name, raised in alarms.items() if raised] == [named.DRIFT]


def test_curves_have_names_that_trackers_take(corpus: Corpus) -> None:
    for point in trained(HEALTHY, corpus).curve:
        assert re.fullmatch(r"[\w\-. /]+", point.name)


def test_the_numbers_behind_the_alarms_are_kept_too(corpus: Corpus) -> None:
    result = trained(HEALTHY, corpus)
    symptoms = points(result, "symptom ")
    assert list(symptoms) == list(FAULTS)
    assert symptoms[named.BETWEEN] == pytest.approx(1)
    assert symptoms[named.WRONG_AXIS] == 0
    assert {p.step for p in result.curve if p.name.startswith(("alarm ", "symptom "))} == {30}


@pytest.mark.parametrize(
    ("fault", "failed"),
    [(named.WRONG_AXIS, {"causality"}), (named.AFTER_HEAD, {"initial-loss"}), (named.NO_FINAL_NORM, set())],
)
def test_what_the_checks_before_training_found_is_told(fault: str, failed: set[str], corpus: Corpus) -> None:
    result = trained(FAULTY[fault], corpus)
    checks = points(result, "check ")
    assert tuple(checks) == CHECKS
    assert {name for name, found in checks.items() if found} == failed
    assert {p.step for p in result.curve if p.name.startswith("check ")} == {0}


def test_a_recipe_that_does_not_ask_is_not_diagnosed(corpus: Corpus) -> None:
    (result,) = train([Member(Recipe(HEALTHY, AdamW(1e-2, warmup=1), Budget(steps=3, batch=8)), 0)], corpus)
    assert not points(result, "alarm ") | points(result, "symptom ") | points(result, "check ")


def joints(config: ModelConfig, corpus: Corpus) -> Joints:
    return touch(config.build(seed=0), training_batch(corpus, 8, 4, seed=0, step=0))


@pytest.mark.parametrize(
    ("config", "path", "reading"),
    [
        (HEALTHY, 1, 0),
        (replace(HEALTHY, placement=PostNorm()), 0, 1),
        (replace(HEALTHY, placement=NoResidual()), math.nan, 0),
        (FAULTY[named.UNBOUNDED], 1, 0),
        (FAULTY[named.BETWEEN], 0, 0),
    ],
)
def test_where_norms_stand_on_the_stream(config: ModelConfig, path: float, reading: float, corpus: Corpus) -> None:
    """A norm's degree is eps / (variance + eps), not quite zero."""
    found = joints(config, corpus)
    np.testing.assert_allclose(found.path_degree_L, [path] * 2, atol=0.03)
    np.testing.assert_allclose(found.reading_degree_L, [reading] * 2, atol=0.03)


def test_an_embedding_doubled_behind_a_norm_changes_nothing(corpus: Corpus) -> None:
    assert joints(HEALTHY, corpus).embedding_degree == pytest.approx(1)
    assert joints(FAULTY[named.NO_FINAL_NORM], corpus).embedding_degree == pytest.approx(1)
    assert joints(FAULTY[named.AFTER_HEAD], corpus).embedding_degree == pytest.approx(0, abs=0.03)


def test_numbers_that_bfloat16_holds_are_counted(corpus: Corpus) -> None:
    """In float32 only where the second branch reads; the sum after it is fine again."""
    coarse = joints(FAULTY[named.DRIFT], corpus).coarse
    assert [round(share) for share in coarse] == [0, 0, 1, 0, 0, 1, 0]
    assert max(joints(HEALTHY, corpus).coarse) < 0.01


def test_touching_leaves_the_model_as_it_was(corpus: Corpus) -> None:
    model, batch = HEALTHY.build(seed=0), training_batch(corpus, 8, 4, seed=0, step=0)
    before = {name: p.clone() for name, p in model.named_parameters()}
    logits = model(batch.inputs_BT)
    touch(model, batch)
    assert torch.equal(model(batch.inputs_BT), logits)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_silent_block_writes_nothing() -> None:
    block, x_BTD = HEALTHY.build(seed=0).blocks[0], torch.randn(1, 8, 16, generator=torch.Generator().manual_seed(0))
    with silent(block):
        assert torch.equal(block(x_BTD), x_BTD)
    assert not torch.equal(block(x_BTD), x_BTD)


def test_a_check_says_number_limit_and_where_to_look(corpus: Corpus) -> None:
    config = FAULTY[named.AFTER_HEAD]
    model, batch = config.build(seed=0), training_batch(corpus, 8, 4, seed=0, step=0)
    a = measure(model, batch)
    found = {c.name: c for c in faults(a, a, touch(model, batch), idle(model, [batch]))}
    sentence = found[named.AFTER_HEAD].sentence
    assert sentence.startswith("norm-after-head: ")
    assert "the limit is > 0.5" in sentence
    assert "Look for a norm behind it" in sentence


def test_a_slot_is_idle_when_no_window_of_any_batch_uses_it(corpus: Corpus) -> None:
    """By the hidden values of each batch, one after the other; a slot for rare inputs is not dead."""
    model = replace(HEALTHY, feedforward=ReLUFeedForward(24)).build(seed=0)
    with torch.no_grad():
        for block in model.blocks:
            block.feedforward.input.bias[:6] = -2.0
            block.feedforward.input.bias[6:18] = -0.4
    batches = [training_batch(corpus, 8, 1, seed=0, step=step) for step in range(5)]
    used = torch.zeros(2, 24, dtype=torch.bool)
    shares = []
    for batch in batches:
        x_BTD = model.position(model.embedding[batch.inputs_BT])
        for layer, block in enumerate(model.blocks):
            middle_BTD = x_BTD + block.attention(block.attention_norm(x_BTD))
            z_BTF = block.feedforward.input(block.feedforward_norm(middle_BTD))
            used[layer] |= (z_BTF > 0).flatten(0, 1).any(0)
            x_BTD = block(x_BTD)
        shares.append(1 - used.double().mean(1).numpy())
        np.testing.assert_allclose(idle(model, batches[: len(shares)]), shares[-1])
    assert (shares[0] > shares[-1]).all()
    assert (shares[-1] >= 0.25).all()


def test_no_slot_of_gelu_is_idle_however_few_the_windows(corpus: Corpus) -> None:
    assert not idle(HEALTHY.build(seed=0), [training_batch(corpus, 8, 1, seed=0, step=0)]).any()
