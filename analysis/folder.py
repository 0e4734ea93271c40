"""Files that appear whole or not at all, and a folder that one process at a time writes to."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOCK = ".lock"


class RecordError(ValueError):
    """A results folder that cannot be used as it is; the message says which file and what to do."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from entering this with the same `folder`, which is made when it is not there.

    The lock goes with the process, however that ends. Raises RecordError when the folder cannot be written, or when
    another process holds the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / LOCK, "w")  # noqa: SIM115 (closed below; only its opening may raise this error)
    except OSError as error:
        raise RecordError(
            f"{folder} cannot be written ({error.strerror}); choose another folder with --results."
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecordError(
                f"Another process runs a study in {folder}; wait for it, or stop it and give the command again."
            ) from None
        except OSError as error:
            raise RecordError(
                f"{folder} cannot be locked against a second command ({error.strerror}); choose a folder on another "
                "disk with --results."
            ) from None
        yield


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`, or None where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def replace_file(path: Path, content: bytes) -> None:
    """Write `path` so that a reader, or a crash at any moment, sees the old file or the new one.

    Raises RecordError when the folder cannot be written or the disk is full; the old file stays.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(scratch, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise RecordError(
            f"{path} cannot be written ({error.strerror}). Make room or choose another folder with --results; "
            "what was recorded stays."
        ) from None
    finally:
        if scratch.parent.is_dir():
            scratch.unlink(missing_ok=True)
