"""Each fault is named from a small trained model that nobody described, and nothing is named in a healthy one."""

import math
import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from model.batches import IGNORED, Batch, training_batch
from model.checks import CHECKS
from model.cohort import Cohort
from model.corpus.text import Corpus
from model.diagnostics import checks, measure
from model.diagnostics import faults as named
from model.diagnostics.checks import ENTROPY
from model.diagnostics.diagnosis import diagnose
from model.diagnostics.faults import FAULTS, SIGNS, faults
from model.diagnostics.joints import Joints, silent, touch
from model.diagnostics.live import asked
from model.diagnostics.slots import Idle, idle
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
from model.transformer import ModelConfig, Transformer

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


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("factor", [1.05, 1.2, 1.4])
def test_a_stream_that_is_amplified_a_little_is_named_too(factor: float, precision: Precision, corpus: Corpus) -> None:
    """It grows by the factor's square a block, however little that is against what the branches add."""
    result = trained(replace(HEALTHY, placement=AmplifyingResidual(factor)), corpus, precision)
    assert [name for name, raised in points(result, "alarm ").items() if raised] == [named.UNBOUNDED]
    assert points(result, "symptom ")[named.UNBOUNDED] == pytest.approx(factor**2, rel=0.02)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {named.UNBOUNDED, named.BETWEEN}))
def test_where_the_stream_passes_it_is_multiplied_by_one(fault: str, precision: Precision, corpus: Corpus) -> None:
    symptoms = points(trained(FAULTY[fault], corpus, precision), "symptom ")
    assert symptoms[named.UNBOUNDED] == pytest.approx(1, abs=2e-3)


class _AddingAttention(nn.Module):
    """Its input is added to what it gives before the block does so once more."""

    def __init__(self, norm: nn.Module, attention: nn.Module) -> None:
        super().__init__()
        self.inner_norm, self.inner = norm, attention

    def forward(self, x_BTD: Tensor) -> Tensor:
        y_BTD: Tensor = 2 * x_BTD + self.inner(self.inner_norm(x_BTD))
        return y_BTD


def test_a_branch_that_adds_what_it_reads_is_an_unbounded_residual(corpus: Corpus) -> None:
    """What it writes is no part of what passes the branches by, but the stream grows by it all the same."""
    model, batch = HEALTHY.build(seed=0), training_batch(corpus, 8, 4, seed=0, step=0)
    for block in model.blocks:
        block.attention, block.attention_norm = _AddingAttention(block.attention_norm, block.attention), nn.Identity()
    anatomy, joined = measure(model, batch), touch(model, batch)
    assert anatomy.bypass_factor_L == pytest.approx(1)
    found = {c.name: c for c in faults(anatomy, anatomy, joined, idle(model, [batch]))}
    assert found[named.UNBOUNDED].value == pytest.approx(3, rel=0.1)
    assert not found[named.UNBOUNDED].passed


@pytest.fixture(scope="module")
def twenty(corpus: Corpus) -> list[Result]:
    """Healthy models that have learned most of what there is to learn."""
    recipe = Recipe(HEALTHY, AdamW(1e-2, warmup=5), Budget(steps=120, batch=8), diagnosed=True)
    return train([Member(recipe, seed) for seed in range(20)], corpus, keep_models=True)


def test_twenty_healthy_models_that_were_trained_raise_no_alarm(twenty: list[Result]) -> None:
    for result in twenty:
        alarms = points(result, "alarm ")
        assert list(alarms) == list(FAULTS)
        assert not any(alarms.values())


def test_twenty_healthy_models_that_were_trained_pass_the_checks(twenty: list[Result]) -> None:
    """Attention may average: in this text the last letter tells all there is to know of the next one."""
    averages = {"attention entropy, mean", "attention entropy, highest layer"}
    for result in twenty:
        assert result.kept is not None
        model, probe = HEALTHY.build(seed=0), result.kept.probe
        model.load_state_dict(result.kept.weights)
        found = checks(measure(model, probe), touch(model, probe))
        assert [check.sentence for check in found if not check.passed and check.name not in averages] == []
        assert all(check.value > ENTROPY[1] for check in found if not check.passed)


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
    assert "at any of the 32 positions looked at" in found[named.DEAD].look_at
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
        found = idle(model, batches[: len(shares)])
        np.testing.assert_allclose(found.share_L, shares[-1])
        assert found.positions == 8 * len(shares)
    assert (shares[0] > shares[-1]).all()
    assert (shares[-1] >= 0.25).all()


def test_no_slot_of_gelu_is_idle_however_few_the_windows(corpus: Corpus) -> None:
    assert not idle(HEALTHY.build(seed=0), [training_batch(corpus, 8, 1, seed=0, step=0)]).share_L.any()


def test_windows_of_padding_are_no_text(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slot that only padding activates is idle; all windows that have a target are looked at."""
    recipe = Recipe(HEALTHY, AdamW(1e-2, warmup=0), Budget(steps=1, batch=8))
    cohort = Cohort([Member(recipe, 0)], corpus, "cpu", compiled=False)
    padding = Batch(torch.zeros(8, 8, dtype=torch.long), torch.full((8, 8), IGNORED))
    cohort.held_out = [*cohort.held_out, padding]
    seen: list[Batch] = []

    def noting(model: Transformer, batches: Iterable[Batch]) -> Idle:
        seen.extend(batches)
        return idle(model, seen)

    monkeypatch.setattr("model.diagnostics.diagnosis.idle", noting)
    diagnose(cohort, 0)
    assert all((batch.targets_BT != IGNORED).any(dim=1).all() for batch in seen)
    assert sum(len(b.inputs_BT) for b in seen) == sum(len(asked(b).inputs_BT) for b in cohort.held_out)
    assert all(len(batch.inputs_BT) for batch in seen)


def test_no_fault_is_named_from_numbers_that_are_not_finite(corpus: Corpus) -> None:
    model, batch = HEALTHY.build(seed=0), training_batch(corpus, 8, 4, seed=0, step=0)
    whole = measure(model, batch)
    broken, joined, unused = replace(whole, loss=math.nan), touch(model, batch), idle(model, [batch])
    assert faults(broken, whole, joined, unused) == faults(whole, broken, joined, unused) == []


def test_a_sign_says_when_it_alarms() -> None:
    assert SIGNS[named.UNBOUNDED].alarm_when == "≥ 1.05"
    assert SIGNS[named.EPS].alarm_when == "≤ 0.707"
    for name, sign in SIGNS.items():
        assert not sign.check(name, sign.limit, 1).passed
        assert sign.check(name, sign.limit + (-1e-6 if sign.above else 1e-6), 1).passed
