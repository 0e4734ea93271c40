"""The residual stream before any training, by depth: what the placement of the norms and the first weights decide."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from model.batches import Batch
from model.diagnostics.anatomy import Anatomy
from model.diagnostics.measure import measure
from model.transformer import ModelConfig

DEPTHS = (6, 12, 24, 48)
WINDOWS = 8


def at_initialisation(config: ModelConfig, depths: Sequence[int] = DEPTHS, seed: int = 0) -> dict[int, Anatomy]:
    """By depth, the Anatomy of `config` with so many layers, before its first update.

    The text is uniform random tokens, of which such a model knows as much as of any other.
    """
    draws = torch.Generator().manual_seed(seed)
    tokens = torch.randint(config.vocabulary, (WINDOWS, config.context + 1), generator=draws)
    batch = Batch(tokens[:, :-1], tokens[:, 1:])
    return {layers: measure(replace(config, layers=layers).build(seed), batch) for layers in depths}
