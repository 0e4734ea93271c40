"""An update played back on a GPU: its hundreds of small kernels start as one.

A kernel of a model this small takes less time than Python takes to ask for it. A CUDA graph holds the kernels of one
update with the addresses that they read and write, and starts them together.
"""

import functools
from collections.abc import Callable, Sequence

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
        self.inputs: list[Tensor] = []
        self.outputs: Outputs = ()

    def __call__(self, function: Callable[..., Outputs], *inputs: Tensor) -> Outputs:
        """Raises torch.OutOfMemoryError, too, where memory fails that PyTorch did not ask for itself."""
        try:
            return self._call(function, *inputs)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError) or not _of_memory(error):
                raise
            raise torch.OutOfMemoryError(str(error)) from error

    def _call(self, function: Callable[..., Outputs], *inputs: Tensor) -> Outputs:
        self.calls += 1
        if self.calls <= BEFORE:
            return _aside(function, inputs)
        if self.calls == BEFORE + 1:
            self.inputs = [tensor.clone() for tensor in inputs]
            self._record(function)
        for fixed, given in zip(self.inputs, inputs, strict=True):
            fixed.copy_(given)
        self.graph.replay()
        return self.outputs

    def _record(self, function: Callable[..., Outputs]) -> None:
        before = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(self.graph, stream=_side()):  # nothing is run
                self.outputs = function(*self.inputs)
        finally:
            torch.cuda.set_stream(before)  # where recording fails, the context leaves the stream on which it was


def _of_memory(error: BaseException) -> bool:
    """Whether it, or what was being handled when it came, tells of memory that failed: CUDA's own, or that of cuBLAS;
    a recording that breaks off ends with an error of its own."""
    before = error.__context__
    told = any(words in str(error) for words in ("out of memory", "ALLOC_FAILED"))
    return told or isinstance(error, torch.OutOfMemoryError) or (before is not None and _of_memory(before))


def called(function: Callable[..., Outputs], *inputs: Tensor) -> Outputs:
    """`Recorded` for where nothing is recorded."""
    return function(*inputs)


def _aside(function: Callable[..., Outputs], inputs: Sequence[Tensor]) -> Outputs:
    """As it is, on the stream on which it will be recorded: what libraries make ready belongs to a stream."""
    side, before = _side(), torch.cuda.current_stream()
    side.wait_stream(before)
    with torch.cuda.stream(side):
        outputs = function(*inputs)
    before.wait_stream(side)
    return outputs


@functools.cache
def _side() -> torch.cuda.Stream:
    """The stream of this process on which updates are recorded; the default one cannot be."""
    return torch.cuda.Stream()
