import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from model.optimizer import AdamW, build


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
    matrix, vector = torch.zeros(2, 2), torch.zeros(2)
    decaying, others = AdamW(weight_decay=0.1).groups([matrix], [vector])
    assert decaying["params"][0] is matrix
    assert decaying["weight_decay"] == 0.1
    assert others["params"][0] is vector
    assert others["weight_decay"] == 0.0


def test_every_group_keeps_its_own_numbers() -> None:
    a, b = AdamW(3e-3, (0.9, 0.95), 1e-8), AdamW(1e-4, (0.8, 0.9), 1e-6)
    optimizer = build([*a.groups([torch.zeros(2, 2)], []), *b.groups([torch.zeros(2, 2)], [])][::2], "cpu")
    assert [(g["lr"], g["betas"], g["eps"]) for g in optimizer.param_groups] == [
        (3e-3, (0.9, 0.95), 1e-8),
        (1e-4, (0.8, 0.9), 1e-6),
    ]


def test_one_update_by_hand() -> None:
    """Loshchilov & Hutter's algorithm 2 at its first step: w (1 - lr wd) - lr g / (|g| + eps)."""
    model = nn.Linear(2, 1, bias=True).double()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = build(AdamW(learning_rate=0.01, weight_decay=0.3).groups([model.weight], [model.bias]), "cpu")
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
