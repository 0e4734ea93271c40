"""An update played back on a GPU: its hundreds of small kernels start as one.

A kernel of a model this small takes less time than Python takes to ask for it. A CUDA graph holds the kernels of one
update with the addresses that they read and write, and starts them together.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]

BEFORE = 3  # calls made as they are, in which libraries make ready what they need; as many as in PyTorch's manual


class Recorded:
    """Calls one function of CUDA tensors of fixed shapes: the first times as it is, then once to record it, and from
    then on what was recorded is played back on whatever the arguments hold.

    All else that the function reads and writes must stay where it is, and it must leave everything to the GPU. What a
    call returns is valid until the next one. The function is given with each call so that no cycle of references keeps
    a cohort's memory after its end.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.graph = torch.cuda.CUDAGraph()
        self.stream = torch.cuda.Stream()  # the default one cannot be recorded, and what is made ready is a stream's
        self.inputs: list[Tensor] = []
        self.outputs: Outputs = ()

    def __call__(self, function: Callable[..., Outputs], *inputs: Tensor) -> Outputs:
        self.calls += 1
        if self.calls <= BEFORE:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                outputs = function(*inputs)
            torch.cuda.current_stream().wait_stream(self.stream)
            return outputs
        if self.calls == BEFORE + 1:
            self.inputs = [tensor.clone() for tensor in inputs]
            with torch.cuda.graph(self.graph, stream=self.stream):  # records, and runs nothing
                self.outputs = function(*self.inputs)
        for fixed, given in zip(self.inputs, inputs, strict=True):
            fixed.copy_(given)
        self.graph.replay()
        return self.outputs


def called(function: Callable[..., Outputs], *inputs: Tensor) -> Outputs:
    """`Recorded` for where nothing is recorded."""
    return function(*inputs)
