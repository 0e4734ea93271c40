"""How a model's parts are joined, by touching it: its stream doubled, its branches silenced, one position changed.

An Anatomy tells what passes through a model; where a norm or a cast stands, and over what, does not show in scales.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.batches import Batch
from model.diagnostics.trace import Trace, scale, traced, wide
from model.transformer import Transformer

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Joints:
    """What `touch` finds. L blocks. A degree is log2 of what something grows by when something else is doubled: 1 where
    the one follows the other, 0 where a norm stands between them; NaN where there is nothing to measure."""

    path_degree_L: Floats  # of the stream after a block whose branches are silent, when the stream before it is doubled
    reading_degree_L: Floats  # of what a block's attention reads, when the stream before the block is doubled
    embedding_degree: float  # of the logits, when the output matrix is doubled
    crossing: float  # of any norm: how far its output moves where its input does not, when one position's input is
    #                  changed, over how far it moves there; 0 for a norm within each position
    coarse: tuple[float, ...]  # shares of numbers that bfloat16 holds exactly, at every point where the stream is read
    #                            or written, in order

    @property
    def post_norm(self) -> NDArray[np.bool_]:
        """(L,): whether a block's norms stand on the stream and none where its attention reads, as in post-norm."""
        return (self.path_degree_L < 0.5) & (self.reading_degree_L > 0.5)


@torch.no_grad()
def touch(model: Transformer, batch: Batch) -> Joints:
    """The Joints of `model` on `batch`, both on one device; about the work of three forward passes.

    Under autocast it touches what the model does under autocast. Changes nothing of the model.
    """
    with traced(model) as trace:
        logits_BTV = model(batch.inputs_BT)
    blocks = [f"blocks.{layer}" for layer in range(len(model.blocks))]
    degrees = [_degrees(block, trace.inputs[name]) for block, name in zip(model.blocks, blocks, strict=True)]
    last_BTD, embedding_VD = trace.outputs[blocks[-1]], model.embedding
    return Joints(
        path_degree_L=np.array([path for path, _ in degrees]),
        reading_degree_L=np.array([reading for _, reading in degrees]),
        embedding_degree=_degree(logits_BTV, model.head(last_BTD, 2 * embedding_VD)),
        crossing=max((_crossing(norm, trace.inputs[name]) for name, norm in _norms(model, trace)), default=0.0),
        coarse=tuple(_coarse(x_BTD) for x_BTD in _stream(trace, blocks)),
    )


def _degrees(block: nn.Module, x_BTD: Tensor) -> tuple[float, float]:
    """The degrees of a block's path and of what its attention reads."""
    with traced(block) as once, silent(block):
        before_BTD = block(x_BTD)
    with traced(block) as twice, silent(block):
        after_BTD = block(2 * x_BTD)
    reading = _degree(once.inputs["attention"], twice.inputs["attention"]) if "attention" in once.inputs else np.nan
    return _degree(before_BTD, after_BTD), reading


@contextmanager
def silent(block: nn.Module) -> Iterator[None]:
    """Let the branches of `block` give zeros while this holds."""
    hooks = [
        module.register_forward_hook(lambda module, inputs, output: torch.zeros_like(output))
        for name, module in block.named_children()
        if name in ("attention", "feedforward")
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _norms(model: nn.Module, trace: Trace) -> Iterator[tuple[str, nn.Module]]:
    """The norms that the last forward pass used."""
    for name, module in model.named_modules():
        if name.endswith("norm") and name in trace.inputs:
            yield name, module


def _crossing(norm: nn.Module, x_BTD: Tensor) -> float:
    changed_BTD = x_BTD.clone()
    changed_BTD[0, -1] = x_BTD[0, 0].flip(-1)
    moved_BT = wide(norm(changed_BTD) - norm(x_BTD)).abs().amax(-1)
    there = moved_BT[0, -1].item()
    moved_BT[0, -1] = 0
    return moved_BT.max().item() / there if there else 0.0


def _stream(trace: Trace, blocks: list[str]) -> Iterator[Tensor]:
    """The stream before each block, where its norms read it, and after the last block."""
    for name in blocks:
        yield trace.inputs[name]
        for norm in ("attention_norm", "feedforward_norm"):
            if f"{name}.{norm}" in trace.inputs:
                yield trace.inputs[f"{name}.{norm}"]
    yield trace.outputs[blocks[-1]]


def _coarse(x: Tensor) -> float:
    return (x.bfloat16().to(x.dtype) == x).double().mean().item()


def _degree(once: Tensor, twice: Tensor) -> float:
    before, after = scale(once), scale(twice)
    return float(np.log2(after / before)) if before and after else np.nan
