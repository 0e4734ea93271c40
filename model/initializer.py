"""Every tensor's first values, by its role; a tensor without a role is an error.

Each tensor draws from a stream of its own, made from the run's init seed and the tensor's name. So a tensor that two
arms share by name and shape starts equal in both, whatever else the arms build before it.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

GAIN, BIAS, RESIDUAL_OUTPUT, MATRIX = "gain", "bias", "residual output", "matrix"


def role(name: str, tensor: Tensor) -> str:
    """What a parameter is for, read from its name and rank."""
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "gain" and tensor.ndim == 1:
        return GAIN
    if leaf == "bias" and tensor.ndim == 1:
        return BIAS
    if name.endswith("output.weight") and tensor.ndim == 2:
        return RESIDUAL_OUTPUT
    if leaf in ("weight", "embedding") and tensor.ndim == 2:
        return MATRIX
    raise AssertionError(f"the tensor {name} of shape {tuple(tensor.shape)} has no role, so nothing says how it starts")


@dataclass(frozen=True)
class ScaledNormal:
    """N(0, std) for matrices and embeddings, N(0, std / sqrt(2 L)) for the 2 L matrices that write to the residual
    stream (Radford et al. 2019, section 2.3), ones for gains, zeros for biases."""

    std: float = 0.02

    def apply(self, model: nn.Module, layers: int, seed: int) -> None:
        """Fill every parameter of `model` in place; the same `seed` gives the same values on every device."""
        _fill(model, {MATRIX: self.std, RESIDUAL_OUTPUT: self.std / math.sqrt(2 * layers)}, seed)


@dataclass(frozen=True)
class PlainNormal:
    """N(0, std) for every matrix, those that write to the residual stream too, whatever the depth."""

    std: float = 0.02

    def apply(self, model: nn.Module, layers: int, seed: int) -> None:
        """As of `ScaledNormal`, with the same draws: what differs is the scale of the 2 L matrices alone."""
        _fill(model, {MATRIX: self.std, RESIDUAL_OUTPUT: self.std}, seed)


Initializer = ScaledNormal | PlainNormal


def _fill(model: nn.Module, stds: Mapping[str, float], seed: int) -> None:
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            kind = role(name, tensor)
            if kind in stds:
                values = torch.empty(tensor.shape, dtype=torch.float32)
                values.normal_(0.0, stds[kind], generator=_stream(seed, name))
                tensor.copy_(values)
            else:
                tensor.fill_(1.0 if kind == GAIN else 0.0)


def _stream(seed: int, name: str) -> torch.Generator:
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
