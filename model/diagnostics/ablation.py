"""What a branch is for, by switching it off: how much the loss rises."""

import numpy as np
import torch
from torch import Tensor, nn

from model.batches import IGNORED, Batch
from model.diagnostics.anatomy import Floats
from model.diagnostics.trace import wide
from model.transformer import Transformer

BRANCHES = ("attention", "feedforward")


@torch.no_grad()
def ablation(model: Transformer, batch: Batch) -> Floats:
    """(L, 2): the rise of the loss, in nats per token, when the attention or the feed-forward layer of one block writes
    nothing. Zero says that it is of no use there, or not used at all."""
    whole = _loss(model, batch)
    rises = [[_loss_without(model, batch, block, branch) - whole for branch in BRANCHES] for block in model.blocks]
    return np.array(rises)


def _loss_without(model: Transformer, batch: Batch, block: nn.Module, branch: str) -> float:
    if not hasattr(block, branch):
        return float("nan")
    hook = block.get_submodule(branch).register_forward_hook(_nothing)
    try:
        return _loss(model, batch)
    finally:
        hook.remove()


def _nothing(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return torch.zeros_like(output)


def _loss(model: Transformer, batch: Batch) -> float:
    logits_BTV = wide(model(batch.inputs_BT))
    return nn.functional.cross_entropy(
        logits_BTV.flatten(0, 1), batch.targets_BT.flatten(), ignore_index=IGNORED
    ).item()
