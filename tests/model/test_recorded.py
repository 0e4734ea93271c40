"""What is called, recorded and played back, and when; the GPU is a stand-in that counts, for the order needs none."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from model import recorded
from model.recorded import BEFORE, Recorded


class Graph:
    """Plays back the function that was called while it was being recorded."""

    def __init__(self) -> None:
        self.played = 0

    def replay(self) -> None:
        self.played += 1


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    stream = SimpleNamespace(wait_stream=lambda other: None)
    cuda = SimpleNamespace(
        CUDAGraph=Graph,
        graph=lambda graph, stream: nullcontext(),
        stream=lambda stream: nullcontext(),
        current_stream=lambda: stream,
        set_stream=lambda stream: None,
    )
    for name, value in vars(cuda).items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(recorded, "_side", lambda: stream)
    return cuda


def test_first_it_is_called_then_recorded_then_played_back_on_what_is_given(gpu: SimpleNamespace) -> None:
    seen: list[Tensor] = []

    def function(x: Tensor) -> tuple[Tensor]:
        seen.append(x)
        return (x,)

    play = Recorded()
    given = [torch.tensor([float(call)]) for call in range(BEFORE + 4)]
    outputs = [play(function, x)[0].item() for x in given]
    assert outputs == [float(call) for call in range(BEFORE + 4)]
    assert [x is theirs for x, theirs in zip(seen, given, strict=False)] == [True] * BEFORE + [False]
    assert len(seen) == BEFORE + 1
    assert isinstance(play.graph, Graph)
    assert play.graph.played == 4


def broken_off() -> Exception:
    """As when memory fails while an update is recorded, and the recording then fails to end."""
    error = torch.AcceleratorError("operation failed due to a previous error during capture")
    error.__context__ = torch.OutOfMemoryError("Tried to allocate 2.00 GiB")
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.AcceleratorError("CUDA error: out of memory"), torch.OutOfMemoryError),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), torch.OutOfMemoryError),
        (torch.OutOfMemoryError("Tried to allocate 2.00 GiB"), torch.OutOfMemoryError),
        (broken_off(), torch.OutOfMemoryError),
        (torch.AcceleratorError("another"), torch.AcceleratorError),
        (ValueError("out of memory"), ValueError),
    ],
)
@pytest.mark.parametrize("calls", [0, BEFORE])
def test_memory_that_fails_is_told_as_memory_whoever_asked_for_it(
    gpu: SimpleNamespace, error: Exception, kind: type[Exception], calls: int
) -> None:
    play = Recorded()
    play.calls = calls

    def function(x: Tensor) -> tuple[Tensor]:
        raise error

    with pytest.raises(kind) as raised:
        play(function, torch.zeros(1))
    assert type(raised.value) is kind
