"""Every check raises its alarm for the fault that it is there for, and none for a healthy model."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from model.batches import Batch
from model.diagnostics import Anatomy, checks, measure
from model.diagnostics.checks import Check
from model.initializer import PlainNormal
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


def measured(config: ModelConfig, seed: int = 0, key_bias: float = 0.0) -> Anatomy:
    """Of a new model, the first half of whose keys begin with this bias."""
    tokens = torch.randint(config.vocabulary, (8, config.context + 1), generator=torch.Generator().manual_seed(seed))
    model = config.build(seed)
    with torch.no_grad():
        for block in model.blocks:
            block.feedforward.input.bias[: config.feedforward.d_ff // 2] = key_bias
    return measure(model, Batch(tokens[:, :-1], tokens[:, 1:]))


def failed(found: list[Check]) -> set[str]:
    return {check.name for check in found if not check.passed}


@pytest.mark.parametrize("changes", [{}, {"norm": RMSNorm()}, {"position": RotaryPosition()}, {"layers": 1}])
def test_a_healthy_model_raises_no_alarm_before_training(changes: dict[str, object]) -> None:
    for seed in range(20):
        found = checks(measured(replace(CONFIG, **changes), seed), trained=False)  # type: ignore[arg-type]
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
    found = checks(measured(replace(CONFIG, **changes)), trained=False)  # type: ignore[arg-type]
    assert alarm in failed(found)
    for check in found:
        assert check.look_at.endswith(".")
        assert check.sentence.startswith(f"{check.name}: ")


def test_dead_units_raise_the_alarm_after_training() -> None:
    found = measured(replace(CONFIG, feedforward=ReLUFeedForward(24)), key_bias=-2.0)
    assert found.dead == pytest.approx(0.5)
    assert "memory: slots never active" in failed(checks(found))
    assert "memory: slots never active" not in failed(checks(found, trained=False))


def test_each_limit_is_one_that_can_be_crossed() -> None:
    """Of an Anatomy in the healthy middle one measurement at a time is moved past its limit: that check fails alone."""
    healthy = measured(CONFIG)
    middle = replace(
        healthy,
        adjacent_kl_T=np.array([0.2]),
        entropy_LH=np.full((4, 4), 0.7),
        rate_LF=np.full((4, 24), 0.3),
        key_cosine_LF=np.full((4, 24), 0.5),
    )
    assert not failed(checks(middle))
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
        ({"logit_spread": 0.0}, "logits: spread of their scale"),
        ({"dtypes_R": ("float32", "bfloat16", "float32", "float32", "float32")}, "dtypes of the stream"),
    ):
        assert failed(checks(replace(middle, **changes))) == {alarm}  # type: ignore[arg-type]


def test_what_a_model_does_not_have_raises_no_alarm() -> None:
    nothing = replace(
        measured(CONFIG),
        adjacent_kl_T=np.array([0.2]),
        entropy_LH=np.full((4, 4), np.nan),
        projection_gap_L=np.full(4, np.nan),
        rate_LF=np.full((4, 0), np.nan),
        key_cosine_LF=np.full((4, 0), np.nan),
    )
    assert not failed(checks(nothing))
