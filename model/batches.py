"""Which windows a run sees at a step, and the fixed windows that every run is scored on.

A batch is a pure function of (order seed, step): runs of different arms with the same seed see the same text in the
same order, a resumed run continues where it was, and nothing has to be stored.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

IGNORED = -100  # the target of padding; PyTorch's cross-entropy leaves it out


@dataclass(frozen=True)
class Batch:
    """Token ids and the token that follows each, both (..., B, T) int64."""

    inputs_BT: Tensor
    targets_BT: Tensor


def window_starts(stream: np.ndarray | Tensor, context: int, batch: int, seed: int, step: int) -> np.ndarray:
    """Uniform random offsets (B,) of windows of `context` + 1 tokens in `stream`, a function of (seed, step)."""
    draws = np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(step,)))
    return draws.integers(0, len(stream) - context, size=batch)


def windows(stream: Tensor, starts: Tensor, context: int) -> Batch:
    """The windows of `stream` that begin at `starts`, of any shape: a batch of shape (*starts, T)."""
    tokens = stream[starts[..., None] + torch.arange(context + 1, device=stream.device)]
    return Batch(tokens[..., :-1].contiguous(), tokens[..., 1:].contiguous())


def training_batch(stream: np.ndarray, context: int, batch: int, seed: int, step: int) -> Batch:
    """`batch` windows at the offsets of (seed, step): what a run of that order seed sees in that update."""
    starts_B = window_starts(stream, context, batch, seed, step)
    return windows(torch.tensor(stream), torch.from_numpy(starts_B), context)


def evaluation_batches(stream: np.ndarray, context: int, batch: int) -> list[Batch]:
    """All of `stream` in order, cut into windows of `context` targets, each token but the first scored exactly once.

    Every batch has `batch` windows; what is missing to that is padded on the right with IGNORED targets.
    """
    targets = stream[1:]
    windows = -(-len(targets) // (context * batch)) * batch
    padding = windows * context - len(targets)
    inputs_NT = np.concatenate([stream[:-1], np.zeros(padding, stream.dtype)]).reshape(windows, context)
    targets_NT = np.concatenate([targets, np.full(padding, IGNORED, stream.dtype)]).reshape(windows, context)
    return [
        Batch(torch.from_numpy(inputs_NT[i : i + batch]), torch.from_numpy(targets_NT[i : i + batch]))
        for i in range(0, windows, batch)
    ]
