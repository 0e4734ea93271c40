"""From a model and a batch to its Anatomy."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from model.batches import IGNORED, Batch
from model.diagnostics.anatomy import Anatomy
from model.diagnostics.slots import slots
from model.diagnostics.trace import Trace, ratio, scale, traced, wide
from model.parts.attention import attention_weights
from model.transformer import Transformer


def measure(model: Transformer, batch: Batch) -> Anatomy:
    """The Anatomy of `model` on `batch`, both on one device; about the work of one update on that batch.

    Draws no random numbers, leaves no gradients and changes nothing of the model. Under autocast it measures what the
    model does under autocast.
    """
    with torch.enable_grad(), traced(model) as trace:
        logits_BTV = model(batch.inputs_BT)
        wide_BTV = wide(logits_BTV)
        loss = nn.functional.cross_entropy(
            wide_BTV.flatten(0, 1), batch.targets_BT.flatten(), ignore_index=IGNORED, reduction="mean"
        )
        stream = [trace.outputs["position"], *(trace.outputs[f"blocks.{i}"] for i in range(len(model.blocks)))]
        parameters = dict(model.named_parameters())
        of_stream, of_parameters = _gradients(loss, stream, list(parameters.values()))
    with torch.no_grad():
        return Anatomy(
            width=stream[0].shape[-1],
            positions=batch.inputs_BT.numel(),
            loss=loss.item(),
            activation_R=np.array([_deviation(x_BTD) for x_BTD in stream]),
            gradient_R=np.array([_deviation(gradient) for gradient in of_stream]),
            dtypes_R=tuple(_dtype(x_BTD) for x_BTD in stream),
            gradient_norms=dict(
                zip(parameters, [torch.linalg.vector_norm(g).item() for g in of_parameters], strict=True)
            ),
            **_branches(trace, stream),
            **_attention(model, trace),
            **_norms(model, trace),
            **slots(model, trace),
            **_output(model, stream[-1], logits_BTV, wide_BTV),
        )


def _gradients(loss: Tensor, *groups: list[Tensor]) -> list[list[Tensor]]:
    """The gradient of `loss` with respect to each tensor of each group, zero where it does not depend on it."""
    found = iter(torch.autograd.grad(loss, [tensor for group in groups for tensor in group], allow_unused=True))
    return [[torch.zeros_like(tensor) if (g := next(found)) is None else g for tensor in group] for group in groups]


def _branches(trace: Trace, stream: list[Tensor]) -> dict[str, Any]:
    """How much each branch writes, and whether the stream passes it by."""
    writes: dict[str, list[float]] = {"attention": [], "feedforward": []}
    gap, factor = [], []
    for layer, (before, after) in enumerate(pairwise(stream)):
        passed = wide(after)
        for branch, own in writes.items():
            written = trace.outputs.get(f"blocks.{layer}.{branch}", torch.zeros_like(before))
            own.append(ratio(scale(written), scale(before)))
            passed = passed - wide(written)
        gap.append(ratio(scale(passed - before), scale(after)))
        factor.append(ratio((passed * before).sum().item(), wide(before).square().sum().item()))
    return {
        **{f"{branch}_write_L": np.array(own) for branch, own in writes.items()},
        "bypass_gap_L": np.array(gap),
        "bypass_factor_L": np.array(factor),
    }


def _attention(model: Transformer, trace: Trace) -> dict[str, Any]:
    """Entropy of every head, and what the output projection makes of the heads' means."""
    entropies: list[np.ndarray | None] = []
    gaps = []
    for layer, block in enumerate(model.blocks):
        attention: Any = getattr(block, "attention", None)
        name = f"blocks.{layer}.attention"
        if not hasattr(attention, "project") or name not in trace.inputs:
            entropies.append(None)
            gaps.append(np.nan)
            continue
        q_BHTK, k_BHSK, v_BHSK = attention.project(trace.inputs[name])
        weights_BHTS = attention_weights(q_BHTK, k_BHSK)
        entropies.append(entropy(weights_BHTS))
        means_BTD = (weights_BHTS.to(v_BHSK.dtype) @ v_BHSK).transpose(1, 2).flatten(2)
        gaps.append(ratio(scale(wide(trace.outputs[name]) - wide(means_BTD)), scale(means_BTD)))
    heads = max((len(e) for e in entropies if e is not None), default=0)
    return {
        "entropy_LH": np.array([np.full(heads, np.nan) if e is None else e for e in entropies]),
        "projection_gap_L": np.array(gaps),
    }


def entropy(weights_BHTS: Tensor) -> np.ndarray:
    """(H,): the entropy of attention in units of the most that it can be, ln(t + 1) at position t; the mean over all
    positions but the first, which has no choice. 1 is a plain average of what is visible, 0 a single position."""
    T = weights_BHTS.shape[2]
    entropy_BHT = torch.special.entr(wide(weights_BHTS)).sum(-1)
    most_T = torch.arange(1, T + 1, device=weights_BHTS.device, dtype=entropy_BHT.dtype).log()
    return (entropy_BHT[..., 1:] / most_T[1:]).mean(dim=(0, 2)).double().cpu().numpy()


def _norms(model: Transformer, trace: Trace) -> dict[str, Any]:
    """What every norm reads, and the scale of what it gives when its gain is 1 and its bias 0."""
    norms = {
        name: module
        for name, module in model.named_modules()
        if isinstance(getattr(module, "eps", None), float) and name in trace.inputs
    }
    rows = []
    for name, norm in norms.items():
        x = wide(trace.inputs[name])
        plain = {
            parameter: torch.full_like(tensor, 0.0 if parameter == "bias" else 1.0)
            for parameter, tensor in norm.named_parameters()
        }
        scale_BT = wide(functional_call(norm, plain, x)).square().mean(-1).sqrt()
        rows.append(
            (norm.eps, x.mean(-1).abs().mean().item(), x.std(-1, correction=0).mean().item(), *_moments(scale_BT))
        )
    columns = np.array(rows, dtype=float).reshape(-1, 5).T
    names = ("norm_eps_N", "norm_input_mean_N", "norm_input_std_N", "norm_scale_N", "norm_uneven_N")
    dtypes = tuple(_dtype(trace.inputs[name]) for name in norms)
    widths = np.array([trace.inputs[name].shape[-1] for name in norms], dtype=np.int64)
    return {
        "norm_names": tuple(norms),
        "norm_dtypes_N": dtypes,
        "norm_width_N": widths,
        **dict(zip(names, columns, strict=True)),
    }


def _output(model: Transformer, last_BTD: Tensor, logits_BTV: Tensor, wide_BTV: Tensor) -> dict[str, Any]:
    std, deviation = _moments(wide_BTV.std(-1, correction=0))
    doubled_BTV = wide(model.head(2 * last_BTD, model.embedding))
    return {
        "adjacent_kl_T": adjacent_kl(wide_BTV),
        "logit_std": std,
        "logit_spread": ratio(deviation, std),
        "logit_dtype": _dtype(logits_BTV),
        "head_degree": float(np.log2(ratio(scale(doubled_BTV), scale(wide_BTV)))),
    }


def adjacent_kl(logits_BTV: Tensor) -> np.ndarray:
    """(T - 1,): KL(output at a position || output one before) in nats, mean over windows."""
    log_BTV = logits_BTV.log_softmax(-1)
    kl_BT = (log_BTV[:, 1:].exp() * log_BTV.diff(dim=1)).sum(-1)
    return kl_BT.mean(0).double().cpu().numpy()


def _moments(x: Tensor) -> tuple[float, float]:
    return x.mean().item(), x.std(correction=0).item()


def _deviation(x: Tensor) -> float:
    return wide(x).std(correction=0).item()


def _dtype(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
