import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from model.optimizer import AdamW
from model.transformer import ModelConfig


def test_the_schedule_at_its_corners() -> None:
    optimizer = AdamW(learning_rate=3e-3, warmup=100)
    rates = [optimizer.rate(step, 1200) for step in range(1200)]
    assert rates[0] == pytest.approx(3e-3 / 101)
    assert rates[99] == pytest.approx(3e-3 * 100 / 101)
    assert rates[100] == max(rates) == pytest.approx(3e-3)
    assert rates[650] == pytest.approx(1.5e-3)  # half of the cosine
    assert 0 < rates[-1] < 1e-8


@given(warmup=st.integers(0, 50), extra=st.integers(1, 300))
def test_the_schedule_rises_then_falls_and_is_never_zero(warmup: int, extra: int) -> None:
    steps = warmup + extra
    rates = [AdamW(warmup=warmup).rate(step, steps) for step in range(steps)]
    assert all(0 < rate <= 3e-3 for rate in rates)
    assert rates[:warmup] == sorted(rates[:warmup])
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)


def test_decay_falls_on_matrices_only() -> None:
    groups = AdamW(weight_decay=0.1).build(ModelConfig(layers=1).build(0)).param_groups
    assert {p.ndim for p in groups[0]["params"]} == {2}
    assert groups[0]["weight_decay"] == 0.1
    assert {p.ndim for p in groups[1]["params"]} == {1}
    assert groups[1]["weight_decay"] == 0.0


def test_one_update_by_hand() -> None:
    """Loshchilov & Hutter's algorithm 2 at its first step: w (1 - lr wd) - lr g / (|g| + eps)."""
    model = nn.Linear(2, 1, bias=True).double()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = AdamW(learning_rate=0.01, weight_decay=0.3).build(model)
    model(torch.tensor([[1.0, -2.0]], dtype=torch.float64)).sum().backward()
    optimizer.step()
    weight = before["weight"] * (1 - 0.01 * 0.3) - 0.01 * torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    torch.testing.assert_close(model.weight.detach(), weight, rtol=0, atol=1e-9)
    torch.testing.assert_close(model.bias.detach(), before["bias"] - 0.01, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("field", "value"),
    [("learning_rate", 0.0), ("learning_rate", math.inf), ("clip", -1.0), ("eps", math.nan), ("weight_decay", -0.1)],
)
def test_what_cannot_be_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        AdamW(**{field: value})  # type: ignore[arg-type]
