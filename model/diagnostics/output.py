"""What commands write: that it can be is known before the work, and a reader who goes away is no error."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path


class OutputError(ValueError):
    """What cannot be written; the message says why."""


def writable(path: Path) -> Path:
    """`path`, once it has been opened to write and left as it was. Raises OutputError where that fails."""
    new = not path.exists()
    if new or path.is_file() or path.is_dir():  # whoever reads from a pipe would take the trial for the end
        try:
            path.open("ab").close()
            if new:
                path.unlink()
        except OSError as error:
            raise _refused(path, error) from None
    return path


def write(path: Path, text: str) -> None:
    """Make `text` the content of `path`. Raises OutputError where that fails, such as on a full disk."""
    try:
        path.write_text(text)
    except OSError as error:
        raise _refused(path, error) from None


def show(lines: Iterable[str]) -> None:
    """Print `lines`, or as many as are read: ``| head`` ends a command's output and not the command.

    Raises OutputError where they cannot be written for another reason.
    """
    try:
        print(*lines, sep="\n", flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left, which is written at the exit
        if not isinstance(error, BrokenPipeError):
            raise _refused("The output", error) from None


def _refused(what: Path | str, error: OSError) -> OutputError:
    return OutputError(f"{what} cannot be written ({error.strerror}).")
