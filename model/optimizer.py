"""AdamW and its learning-rate schedule, as values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class AdamW:
    """Decoupled weight decay (Loshchilov & Hutter 2019) on matrices only, linear warmup, cosine decay, clipping.

    Raises ValueError for a rate, decay or clip that is not a positive finite number where one is needed.
    """

    learning_rate: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1  # on tensors of two axes; gains and biases are left alone
    warmup: int = 100  # updates
    clip: float = 1.0  # L2 norm of the whole gradient

    def __post_init__(self) -> None:
        for name in ("learning_rate", "eps", "clip"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be a positive number, but it is {value}.")
        for name in ("weight_decay", "warmup"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, but it is {getattr(self, name)}.")

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of update `step` (0-based) of `steps`.

        Rises linearly to `learning_rate` at update `warmup`, then falls along half a cosine that would reach zero at
        update `steps`, one after the last.
        """
        if step < self.warmup:
            return self.learning_rate * (step + 1) / (self.warmup + 1)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / (steps - self.warmup)))

    def groups(self, matrices: Sequence[Tensor], others: Sequence[Tensor]) -> list[dict[str, Any]]:
        """The two parameter groups of one model: its matrices, which decay, and all else, which does not."""
        shared = {"lr": self.learning_rate, "betas": self.betas, "eps": self.eps}
        return [
            shared | {"params": list(matrices), "weight_decay": self.weight_decay},
            shared | {"params": list(others), "weight_decay": 0.0},
        ]


def build(groups: Sequence[dict[str, Any]], device: str) -> torch.optim.AdamW:
    """The optimizer of `groups`, each with numbers of its own, updated by one fused kernel a group; on CUDA it can be
    recorded."""
    return torch.optim.AdamW(list(groups), fused=True, capturable=device == "cuda")
