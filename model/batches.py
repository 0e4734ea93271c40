"""Which windows a run sees at a step, and the fixed windows that every run is scored on.

A batch is a pure function of (order seed, step): runs of different arms with the same seed see the same text in the
same order, a resumed run continues where it was, and nothing has to be stored.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.corpus.text import Corpus

IGNORED = -100  # the target of padding; PyTorch's cross-entropy leaves it out


@dataclass(frozen=True)
class Batch:
    """Token ids and the token that follows each, both (..., B, T) int64."""

    inputs_BT: Tensor
    targets_BT: Tensor


def window_starts(
    stream: np.ndarray | Tensor, context: int, batch: int, seed: int, step: int, stride: int = 1
) -> np.ndarray:
    """Uniform random offsets (B,), multiples of `stride`, of windows of `context` + 1 tokens in `stream`; a function of
    (seed, step)."""
    draws = np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(step,)))
    return draws.integers(0, (len(stream) - context - 1) // stride + 1, size=batch) * stride


def windows(stream: Tensor, starts: Tensor, context: int, asked: Tensor | None = None) -> Batch:
    """The windows of `stream` that begin at `starts`, of any shape: a batch of shape (*starts, T).

    `asked` says of each token of `stream` whether it is to be predicted; the targets that are not are IGNORED.
    """
    places = starts[..., None] + torch.arange(context + 1, device=stream.device)
    tokens = stream[places]
    targets = tokens[..., 1:].contiguous()
    if asked is not None:
        targets = targets.where(asked[places[..., 1:]], IGNORED)
    return Batch(tokens[..., :-1].contiguous(), targets)


def training_batch(corpus: Corpus, context: int, batch: int, seed: int, step: int) -> Batch:
    """`batch` windows at the offsets of (seed, step): what a run of that order seed sees in that update."""
    starts_B = window_starts(corpus.train, context, batch, seed, step, corpus.stride)
    asked = None if corpus.train_asked is None else torch.tensor(corpus.train_asked)
    return windows(torch.tensor(corpus.train), torch.from_numpy(starts_B), context, asked)


def evaluation_batches(corpus: Corpus, context: int, batch: int, part: str = "") -> list[Batch]:
    """The held-out text in order, or its `part` alone, in windows of `context` targets.

    Windows follow each other so that each token but the first is a target exactly once; where the corpus has a stride
    they begin at its multiples. Every batch has `batch` windows; what is missing to that is padded on the right with
    IGNORED targets.
    """
    start, end = corpus.parts[part] if part else (0, len(corpus.held_out))
    tokens, targets = corpus.held_out[start:end], corpus.held_out[start:end]
    if corpus.held_out_asked is not None:
        targets = np.where(corpus.held_out_asked[start:end], targets, IGNORED)
    if corpus.stride > 1:
        places_NT = np.arange(0, len(tokens) - context, corpus.stride)[:, None] + np.arange(context)
        inputs, targets = tokens[places_NT].ravel(), targets[places_NT + 1].ravel()
    else:
        inputs, targets = tokens[:-1], targets[1:]
    windows = -(-len(targets) // (context * batch)) * batch
    padding = windows * context - len(targets)
    inputs_NT = np.concatenate([inputs, np.zeros(padding, inputs.dtype)]).reshape(windows, context)
    targets_NT = np.concatenate([targets, np.full(padding, IGNORED, targets.dtype)]).reshape(windows, context)
    return [
        Batch(torch.from_numpy(inputs_NT[i : i + batch]), torch.from_numpy(targets_NT[i : i + batch]))
        for i in range(0, windows, batch)
    ]
