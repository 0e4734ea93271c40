"""Normalisation by hand, and what low precision holds."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from claims.claim import Claim


def layer_norm(x: ArrayLike, eps: float = 1e-5) -> NDArray[np.float64]:
    """In float64, gain one and bias zero."""
    values = np.asarray(x, dtype=np.float64)
    centred: NDArray[np.float64] = (values - values.mean()) / np.sqrt(values.var() + eps)
    return centred


def rms_norm(x: ArrayLike, eps: float = 1e-5) -> NDArray[np.float64]:
    """In float64, gain one."""
    values = np.asarray(x, dtype=np.float64)
    scaled: NDArray[np.float64] = values / np.sqrt((values**2).mean() + eps)
    return scaled


def numerics() -> Iterator[Claim]:
    x = np.array([2.0, 4.0, 6.0, 8.0])
    by_layer = ("-1.342", "-0.447", "0.447", "1.342")
    yield Claim("2.8", "LayerNorm of [2, 4, 6, 8].", by_layer, tuple(layer_norm(x)), "the formula in float64")
    yield Claim(
        "2.8", "LayerNorm of [100, 200, 300, 400] is the same.", by_layer, tuple(layer_norm(50 * x)), "the formula",
    )  # fmt: skip
    yield Claim(
        "2.10", "RMSNorm of [2, 4, 6, 8].", ("0.365", "0.730", "1.095", "1.461"), tuple(rms_norm(x)), "the formula",
    )  # fmt: skip
    y = rms_norm(x)
    yield Claim(
        "2.10", "Mean and variance of that.", ("0.913", "0.184"), (y.mean(), y.var()),
        f"the mean square is 1, so the variance is 1 less the mean's square; by n - 1 it is {y.var(ddof=1):.3f}",
    )  # fmt: skip
    yield Claim(
        "2.22", "RMSNorm of the same plus 100.", ("0.971", "0.990", "1.010", "1.029"), tuple(rms_norm(x + 100)),
        "the formula; the chapter divides by 105.0 where the root mean square is "
        f"{np.sqrt(((x + 100) ** 2).mean()):.3f}, which gives {', '.join(f'{v:.3f}' for v in (x + 100) / 105.0)}",
    )  # fmt: skip
    yield Claim("2.22", "LayerNorm of the same plus 100.", by_layer, tuple(layer_norm(x + 100)), "the formula")
    near = np.array([1.0, 1.0, 1.0, 1.001])
    found = [abs(layer_norm(near, eps)[0]) for eps in (1e-5, 1e-3, 1e-1)]
    yield Claim(
        "2.15", "First two components of LayerNorm of [1, 1, 1, 1.001], eps 1e-5, 1e-3, 1e-1, in absolute value.",
        ("0.866", "0.500", "0.050"), tuple(found),
        f"the formula: {', '.join(f'{v:.5f}' for v in found)}, the two of one sign. The standard deviation is "
        f"{near.std():.2e}, sqrt(1e-5) is 3.2e-03: eps already decides at its usual value. Without eps it is "
        f"{abs(layer_norm(near, 0.0)[0]):.3f}",
    )  # fmt: skip
    yield Claim("2.15", "That input's standard deviation is about so much.", ("5e-4",), (near.std(ddof=1),), "by n - 1")
    low = {dtype: torch.tensor(1e-5).to(dtype).item() for dtype in (torch.bfloat16, torch.float16)}
    yield Claim(
        "2.34, 2.24", "eps = 1e-5 becomes 0 in bfloat16, and in float16.",
        ("yes", "yes"), (low[torch.bfloat16] == 0, low[torch.float16] == 0),
        f"rounded they are {low[torch.bfloat16]:.4g} and {low[torch.float16]:.4g}: an exponent is not a mantissa. It "
        "is lost only beside a variance more than a hundred times as large, where it has nothing to do",
    )  # fmt: skip
    yield Claim(
        "2.10, 2.24", "bfloat16's precision and its largest number, in 1e38.", ("0.0078", "3.39"),
        (torch.finfo(torch.bfloat16).eps, torch.finfo(torch.bfloat16).max / 1e38), "as PyTorch has them",
    )  # fmt: skip
    yield Claim(
        "2.15", "A stream 14.1 times as wide nears what float16 can hold.", ("yes",),
        (bool(torch.finfo(torch.float16).max / 1000 < 200**0.5),),
        f"float16 holds {torch.finfo(torch.float16).max:,.0f}; a thousandth of that is not reached",
    )  # fmt: skip
