"""Every check raises its alarm for the fault that it is there for, and none for a healthy model."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from model.batches import Batch
from model.diagnostics import Anatomy, Joints, checks, measure, touch
from model.diagnostics.checks import Check
from model.initializer import PlainNormal
from model.parts.block import PostNorm
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
from model.transformer import ModelConfig

CONFIG = ModelConfig(layers=4, d_model=16, context=16, vocabulary=12, feedforward=GELUFeedForward(24))


def measured(config: ModelConfig, seed: int = 0, key_bias: float = 0.0) -> tuple[Anatomy, Joints]:
    """Of a new model, the first half of whose keys begin with this bias."""
    tokens = torch.randint(config.vocabulary, (8, config.context + 1), generator=torch.Generator().manual_seed(seed))
    model = config.build(seed)
    with torch.no_grad():
        for block in model.blocks:
            block.feedforward.input.bias[: config.feedforward.d_ff // 2] = key_bias
    batch = Batch(tokens[:, :-1], tokens[:, 1:])
    return measure(model, batch), touch(model, batch)


def failed(found: list[Check]) -> set[str]:
    return {check.name for check in found if not check.passed}


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm": RMSNorm()}, {"position": RotaryPosition()}, {"layers": 1}, {"placement": PostNorm()}],
)
def test_a_healthy_model_raises_no_alarm_before_training(changes: dict[str, object]) -> None:
    for seed in range(20):
        found = checks(*measured(replace(CONFIG, **changes), seed), trained=False)  # type: ignore[arg-type]
        assert not failed(found), [check.sentence for check in found if not check.passed]


@pytest.mark.parametrize(
    ("changes", "alarm"),
    [
        ({"norm": LayerNorm(eps=1e-2)}, "norms: scale of what they give"),
        ({"placement": AmplifyingResidual()}, "activation, last block / first"),
        ({"initializer": PlainNormal(std=0.2), "layers": 24}, "activation, last block / first"),
        ({"head": BareHead()}, "head: degree in the stream's scale"),
        ({"attention": UnprojectedAttention()}, "attention: output projection"),
        ({"placement": RenormedResidual()}, "stream past the branches: gap"),
        ({"norm": NormOverPositions()}, "norms: from position to position"),
        ({"head": NormedLogits()}, "norms: entries of what they read"),
        ({"placement": DriftingResidual()}, "dtypes of the stream"),
    ],
)
def test_a_fault_raises_the_alarm_that_names_it(changes: dict[str, object], alarm: str) -> None:
    found = checks(*measured(replace(CONFIG, **changes)), trained=False)  # type: ignore[arg-type]
    assert alarm in failed(found)
    for check in found:
        assert check.look_at.endswith(".")
        assert check.sentence.startswith(f"{check.name}: ")


def test_dead_units_raise_the_alarm_after_training() -> None:
    found, joints = measured(replace(CONFIG, feedforward=ReLUFeedForward(24)), key_bias=-2.0)
    assert found.dead == pytest.approx(0.5)
    assert "memory: slots never active" in failed(checks(found, joints))
    assert "memory: slots never active" not in failed(checks(found, joints, trained=False))


def test_each_limit_is_one_that_can_be_crossed() -> None:
    """Of an Anatomy in the healthy middle one measurement at a time is moved past its limit: that check fails alone."""
    healthy, joints = measured(CONFIG)
    middle = replace(
        healthy,
        adjacent_kl_T=np.array([0.2]),
        entropy_LH=np.full((4, 4), 0.7),
        rate_LF=np.full((4, 24), 0.3),
        key_cosine_LF=np.full((4, 24), 0.5),
    )
    assert not failed(checks(middle, joints))
    far = np.full((4, 4), 0.7)
    far[2, 1] = 0.05
    flat = np.full((4, 4), 0.6)
    flat[2] = 0.995
    dead = np.full((4, 24), 0.3)
    dead[3, :8] = 0
    twins = np.full((4, 24), 0.5)
    twins[0, :4] = 0.95
    for changes, alarm in (
        ({"adjacent_kl_T": np.array([0.002])}, "adjacent-position KL"),
        ({"entropy_LH": np.full((4, 4), 0.4)}, "attention entropy, mean"),
        ({"entropy_LH": np.full((4, 4), 0.96)}, "attention entropy, mean"),
        ({"entropy_LH": far}, "attention entropy, lowest head"),
        ({"entropy_LH": flat}, "attention entropy, highest layer"),
        ({"rate_LF": dead}, "memory: slots never active"),
        ({"key_cosine_LF": twins}, "memory: slots with a twin"),
        ({"activation_R": np.array([1, 1, 2, 3, 4.1])}, "activation, last block / first"),
        ({"gradient_R": np.array([1, 1, 1, 1, 0.19])}, "gradient, first block / last or inverse"),
        ({"gradient_R": np.array([1, 0.19, 1, 1, 1])}, "gradient, first block / last or inverse"),
        ({"gradient_R": np.array([1, 0, 1, 1, 1])}, "gradient, first block / last or inverse"),
        ({"gradient_R": np.array([1, 1, 1, 1, 0])}, "gradient, first block / last or inverse"),
        ({"activation_R": np.array([1, 0, 2, 3, 3.9])}, "activation, last block / first"),
        ({"logit_spread": 0.0}, "logits: spread of their scale"),
        ({"dtypes_R": ("float32", "bfloat16", "float32", "float32", "float32")}, "dtypes of the stream"),
    ):
        assert failed(checks(replace(middle, **changes), joints)) == {alarm}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": math.nan},
        {"activation_R": np.array([1, 1, np.inf, 1, 1])},
        {"gradient_R": np.array([1, 1, 1, np.nan, 1])},
        {"gradient_norms": {"embedding": math.inf}},
    ],
)
@pytest.mark.parametrize("trained", [True, False])
def test_a_number_that_is_not_finite_is_broken_and_no_missing_part(changes: dict[str, object], trained: bool) -> None:
    """Nothing else is said of such a model."""
    anatomy, joints = measured(CONFIG)
    (found,) = checks(replace(anatomy, **changes), joints, trained)  # type: ignore[arg-type]
    assert not found.passed
    assert found.sentence.startswith("numbers that are not finite: 1, and the limit is = 0. ")


def test_a_weight_that_is_not_a_number_is_found() -> None:
    model = CONFIG.build(seed=0)
    with torch.no_grad():
        model.blocks[2].feedforward.output.weight[0, 0] = math.nan
    batch = Batch(torch.zeros(1, 16, dtype=torch.long), torch.zeros(1, 16, dtype=torch.long))
    (found,) = checks(measure(model, batch), touch(model, batch))
    assert found.value > 1


def test_what_need_not_be_a_fault_is_said_to_be_so() -> None:
    anatomy, joints = measured(CONFIG)
    sharp = replace(anatomy, entropy_LH=np.full((4, 4), 0.4), gradient_R=np.array([1, 9, 1, 1, 1]))
    sentences = {check.name: check.sentence for check in checks(sharp, joints)}
    for name in ("attention entropy, mean", "gradient, first block / last or inverse"):
        assert "need not be a fault: a task that is copied by sharp attention looks so" in sentences[name]


def test_what_a_model_does_not_have_raises_no_alarm() -> None:
    anatomy, joints = measured(CONFIG)
    nothing = replace(
        anatomy,
        adjacent_kl_T=np.array([0.2]),
        entropy_LH=np.full((4, 4), np.nan),
        projection_gap_L=np.full(4, np.nan),
        rate_LF=np.full((4, 0), np.nan),
        key_cosine_LF=np.full((4, 0), np.nan),
    )
    assert not failed(checks(nothing, joints))
