"""Normalisation over the last axis, computed in float32 whatever the activations are."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


class _Normalisation(nn.Module):
    """x_BTD -> x_BTD; `gain` starts at one and `bias`, where there is one, at zero."""

    def __init__(self, width: int, eps: float, centred: bool) -> None:
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(width))
        self.bias: nn.Parameter | None = nn.Parameter(torch.zeros(width)) if centred else None

    def forward(self, x_BTD: Tensor) -> Tensor:
        shape = (x_BTD.shape[-1],)
        dtype = torch.promote_types(x_BTD.dtype, torch.float32)
        x = x_BTD.to(dtype)
        if self.bias is None:
            y = nn.functional.rms_norm(x, shape, self.gain, self.eps)
        else:
            y = nn.functional.layer_norm(x, shape, self.gain, self.bias, self.eps)
        return y.to(x_BTD.dtype)


@dataclass(frozen=True)
class LayerNorm:
    """Subtract the mean, divide by the standard deviation, then gain and bias (Ba et al. 2016, eq. 4)."""

    eps: float = 1e-5

    def build(self, width: int) -> nn.Module:
        return _Normalisation(width, self.eps, centred=True)

    def count(self, width: int) -> int:
        return 2 * width


@dataclass(frozen=True)
class RMSNorm:
    """Divide by the root mean square, then gain; no mean is subtracted (Zhang & Sennrich 2019, eq. 4)."""

    eps: float = 1e-5

    def build(self, width: int) -> nn.Module:
        return _Normalisation(width, self.eps, centred=False)

    def count(self, width: int) -> int:
        return width


Norm = LayerNorm | RMSNorm
