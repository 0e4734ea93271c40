"""Compiled programs, kept from process to process.

PyTorch keeps what it compiles in one folder for all processes, and takes a library that another process is still
writing, or was killed while it wrote, for a whole one. So each process compiles in a folder of its own; a program
that has run is published whole, by one rename, and the next process begins with a copy of it.
"""

import atexit
import functools
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch

from model.hardware import cache_folder
from model.recipe import Budget, Member

MOST_PROGRAMS = 40  # kept, about 6 MB each; the longest unused go


def published() -> Path:
    """Where programs lie that may be taken up."""
    return cache_folder() / "programs"


def program_key(members: Sequence[Member], device: str) -> str:
    """16 hexadecimal digits of all that a compiled program depends on: this package's source, the recipe's parts and
    shapes, the number of members, the threads, the machine's instructions, the version of PyTorch."""
    program = members[0].recipe.program
    once = replace(program, budget=Budget(1, program.budget.batch))  # how long it runs is no part of the program
    machine = (torch.__version__, _instructions(), torch.get_num_threads(), device)
    return hashlib.sha256(f"{_source()} {once} {len(members)} {machine}".encode()).hexdigest()[:16]


def take_up(key: str) -> None:
    """Compile in a folder of this process alone from now on, beginning with the program `key` where it is published."""
    own, there = _own_folder() / key, published() / key
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(own)
    if own.exists() or not there.is_dir():
        return
    try:
        shutil.copytree(there, own)
        os.utime(there)
    except OSError:  # a full disk, or another process let the program go: half of it would be worse than none
        shutil.rmtree(own, ignore_errors=True)


def publish(key: str) -> None:
    """Let later processes begin with the program `key`, which has run; what cannot be written is not missed."""
    own, there = _own_folder() / key, published() / key
    if there.exists():
        return
    copy = there.with_name(f".{key}-{os.getpid()}")
    try:
        shutil.copytree(own, copy)
        copy.rename(there)
        kept = sorted(there.parent.glob("[0-9a-f]*"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-MOST_PROGRAMS]:
            shutil.rmtree(path, ignore_errors=True)
    except OSError:  # a full disk, or another process that was first
        shutil.rmtree(copy, ignore_errors=True)


@functools.cache
def _instructions() -> str:
    """All that the compiler may use when it compiles for this very processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


@functools.cache
def _source() -> str:
    """A digest of every file of this package; one program under two versions of it would be compiled at each start."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


@functools.cache
def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="seedbed-programs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
