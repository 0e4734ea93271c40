"""The feed-forward layer as a key-value memory (Geva et al. 2021): slot f has the f-th row of the first matrix as its
key and the f-th column of the second as its value, and writes as much of the value as the input activates."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.batches import Batch
from model.diagnostics.trace import Trace, traced, wide
from model.transformer import Transformer


def hidden(block: nn.Module, name: str, trace: Trace) -> Tensor | None:
    """h_BTF of the block called `name`: what its feed-forward layer's second matrix reads; None where it has none."""
    return trace.inputs.get(f"{name}.feedforward.output") if hasattr(block, "feedforward") else None


def slots(model: Transformer, trace: Trace) -> dict[str, Any]:
    """The fields of an Anatomy that tell of the memory."""
    rows: list[tuple[Any, ...] | None] = []
    for layer, block in enumerate(model.blocks):
        h_BTF = hidden(block, f"blocks.{layer}", trace)
        feedforward: Any = getattr(block, "feedforward", None)
        rows.append(None if h_BTF is None else _layer(wide(h_BTF).flatten(0, 1), wide(feedforward.input.weight)))
    width = max((len(row[0]) for row in rows if row is not None), default=0)
    absent = (*[np.full(width, np.nan)] * 4, np.nan, np.nan)
    columns = zip(*(absent if row is None else row for row in rows), strict=True)
    names = ("rate_LF", "strength_LF", "peak_LF", "key_cosine_LF", "zeros_L", "key_cosine_mean_L")
    return {name: np.array(column, dtype=float) for name, column in zip(names, columns, strict=True)}


def _layer(h_PF: Tensor, keys_FD: Tensor) -> tuple[Any, ...]:
    """Of P positions: by slot the rate, strength, peak and nearest key, then the share of zeros and the mean cosine."""
    active_PF = h_PF > 0
    count_F = active_PF.sum(0)
    strength_F = h_PF.clamp(min=0).sum(0) / count_F.clamp(min=1)
    keys_FD = nn.functional.normalize(keys_FD, dim=-1)
    cosine_FF = keys_FD @ keys_FD.mT
    F = len(cosine_FF)
    mean = ((cosine_FF.sum() - cosine_FF.diagonal().sum()) / max(1, F * (F - 1))).item()
    most_F = cosine_FF.fill_diagonal_(-1.0).amax(-1)
    per_slot = (count_F / len(h_PF), strength_F, h_PF.amax(0), most_F)
    zeros = (h_PF == 0).float().mean().item()
    return (*(values.double().cpu().numpy() for values in per_slot), zeros, mean)


@dataclass(frozen=True, eq=False)
class Idle:
    """Slots whose hidden value is exactly zero at every one of `positions`, so that nothing can come back to them."""

    share_L: NDArray[np.float64]  # of a layer's slots; NaN for a layer without
    positions: int


@torch.no_grad()
def idle(model: Transformer, batches: Iterable[Batch]) -> Idle:
    """The idle slots over all `batches`. A few windows do not tell: many slots are for rare inputs."""
    used: list[Tensor | None] = [None] * len(model.blocks)
    positions = 0
    for batch in batches:
        positions += batch.inputs_BT.numel()
        with traced(model) as trace:
            model(batch.inputs_BT)
        for layer, block in enumerate(model.blocks):
            h_BTF = hidden(block, f"blocks.{layer}", trace)
            if h_BTF is not None:
                here_F, before_F = (h_BTF != 0).any(0).any(0), used[layer]
                used[layer] = here_F if before_F is None else here_F | before_F
    shares = [np.nan if used_F is None else 1 - used_F.double().mean().item() for used_F in used]
    return Idle(np.array(shares), positions)
