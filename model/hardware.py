"""What this machine can do, as far as it decides how runs are trained."""

import ctypes
import os
import platform
import shutil
from pathlib import Path

import torch

NATIVE_BF16_CAPABILITY = 8  # of a CUDA device: Ampere and later
CONTROL_GROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
# How glibc is to serve a process that trains: one heap for all threads, which keeps what is freed for the next update.
# Otherwise large tensors are mapped anew each time, page by page: in a thread an update of a cohort takes 1.1 to 1.3
# times as long (benchmarks/allocator.py), and after cohorts of many sizes more memory is held than they need.
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**36)}
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of mallopt(3)


def native_bf16(device: str) -> bool:
    """Whether matrix products in bfloat16 are faster here than in float32: a CPU with instructions for them (AMX or
    AVX512-BF16), or a CUDA device that has them."""
    if device == "cuda":
        return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= NATIVE_BF16_CAPABILITY
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())


def has_compiler(device: str) -> bool:
    """Whether `torch.compile` finds what it needs: a C++ compiler for a CPU, Triton for CUDA."""
    if device == "cuda":
        return torch.utils._triton.has_triton()
    return shutil.which(os.environ.get("CXX", "g++")) is not None


def keep_freed_memory() -> None:
    """Have this process's main thread served as `ALLOCATOR` has a new process served, where the C library is glibc."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0), libc.mallopt(M_TRIM_THRESHOLD, -1)


def available_memory() -> int:
    """Bytes of main memory that this machine has, or that its container may use."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CONTROL_GROUP_LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):
            continue  # there is none, or it says "max"
    return min(limits)


def cache_folder() -> Path:
    """Where this machine keeps what can be had again: ``$XDG_CACHE_HOME/seedbed``, by default ``~/.cache/seedbed``."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG base directory specification says to ignore a relative path.
    return (configured if configured.is_absolute() else Path.home() / ".cache") / "seedbed"
