"""What passes through a model's modules in a forward pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Trace:
    """The first input and the output of every module in the last forward pass, by the module's name."""

    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)


@contextmanager
def traced(model: nn.Module) -> Iterator[Trace]:
    """Note what passes through `model` while this holds; the hooks that do so are taken off again."""
    trace = Trace()

    def noting(name: str) -> Any:
        def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            trace.inputs[name], trace.outputs[name] = inputs[0], output

        return note

    hooks = [module.register_forward_hook(noting(name)) for name, module in model.named_modules() if name]
    try:
        yield trace
    finally:
        for hook in hooks:
            hook.remove()


def wide(x: Tensor) -> Tensor:
    """`x` in float32 or wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def ratio(of: float, to: float) -> float:
    """`of` / `to`, NaN where there is nothing to compare with."""
    return of / to if to else float("nan")


def scale(x: Tensor) -> float:
    """The root mean square of all entries."""
    return (torch.linalg.vector_norm(wide(x)) / x.numel() ** 0.5).item()
