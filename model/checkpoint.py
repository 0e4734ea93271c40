"""The state of a cohort on disk, so that a run that was killed goes on where it was."""

import os
import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch


@dataclass(frozen=True)
class Checkpoint:
    """One file, written about every `seconds` while a cohort trains; whoever has recorded the results removes it."""

    path: Path
    seconds: float

    def write(self, state: dict[str, Any]) -> None:
        """Put `state` in place of what was there, whole or not at all. Raises OSError when it cannot be written."""
        partial = self.path.with_suffix(f".{os.getpid()}.part")
        try:
            with partial.open("wb") as file:
                _save(state, file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        finally:
            partial.unlink(missing_ok=True)

    def read(self) -> dict[str, Any] | None:
        """The state last written; None when there is none or it cannot be read, so that training starts anew."""
        try:
            state: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError):
            return None
        return state


def _save(state: dict[str, Any], file: BinaryIO) -> None:
    try:
        torch.save(state, file)
    except RuntimeError as error:  # what PyTorch's writer makes of a disk that becomes full within a file
        raise OSError(f"The state was not written: {error}") from error


class Clock:
    """Says when `seconds` have passed since it was made or last said so."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.last = seconds, time.monotonic()

    def due(self) -> bool:
        if time.monotonic() - self.last < self.seconds:
            return False
        self.last = time.monotonic()
        return True
