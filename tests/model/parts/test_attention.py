import math

import torch
from torch.func import vmap

from model.parts.attention import CausalAttention, attention_weights, fused_attention, plain_attention
from model.parts.position import RotaryPosition


def test_plain_and_fused_attention_are_one_function() -> None:
    """Values and gradients, in float64; the plain one also mapped over members."""
    draw = torch.Generator().manual_seed(0)
    inputs = [torch.randn(3, 2, 4, 16, 8, generator=draw, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    upstream = torch.randn(3, 2, 4, 16, 8, generator=draw, dtype=torch.float64)
    outcomes = []
    for attend in (plain_attention, fused_attention, vmap(plain_attention)):
        y = attend(*inputs)
        outcomes.append([y, *torch.autograd.grad(y, inputs, upstream)])
    for other in outcomes[1:]:
        for ours, theirs in zip(outcomes[0], other, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_weights_by_a_slow_loop_are_those_that_attention_uses() -> None:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4, generator=draw, dtype=torch.float64) for _ in range(3))
    weights = attention_weights(q, k)
    for b in range(2):
        for head in range(3):
            for t in range(5):
                scores = [float(q[b, head, t] @ k[b, head, s]) / 2 for s in range(t + 1)]
                total = sum(math.exp(score) for score in scores)
                expected = [math.exp(score) / total for score in scores] + [0.0] * (4 - t)
                torch.testing.assert_close(weights[b, head, t].tolist(), expected, rtol=1e-12, atol=0)
    assert torch.equal(plain_attention(q, k, v), weights @ v)


def test_what_is_projected_is_what_the_module_attends_with() -> None:
    module = CausalAttention(heads=2).build(8, RotaryPosition())
    x_BTD = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    q, k, v = module.project(x_BTD)
    means_BTD = (attention_weights(q, k) @ v).transpose(1, 2).reshape(2, 5, 8)
    assert torch.equal(module(x_BTD), module.output(means_BTD))


def test_softmax_is_float32_when_products_are_bfloat16() -> None:
    """Sixty-four equal scores give each earlier position its share to float32's rounding, which bfloat16 would miss."""
    zeros, v = torch.zeros(1, 1, 64, 8, dtype=torch.bfloat16), torch.ones(1, 1, 64, 8)
    weights = plain_attention(zeros, zeros, torch.eye(64)[None, None])
    assert weights.dtype == torch.float32
    expected = torch.ones(64, 64).tril() / torch.arange(1, 65)[:, None]
    torch.testing.assert_close(weights[0, 0], expected, rtol=1e-6, atol=0)
    assert plain_attention(zeros, zeros, v.bfloat16()).dtype == torch.bfloat16
