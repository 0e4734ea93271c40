"""What a process is told of the machine that it trains on."""

import platform
import subprocess
import sys

import pytest

FILL = """
import resource
import torch
from model.hardware import keep_freed_memory

def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = [new_pages() for _ in range(5)]
keep_freed_memory()
kept = [new_pages() for _ in range(20)]
print(min(usual), max(kept[-5:]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have allocators of their own")
def test_what_a_tensor_gave_back_is_used_again() -> None:
    done = subprocess.run([sys.executable, "-c", FILL], capture_output=True, text=True, check=True, timeout=120)
    usual, kept = map(int, done.stdout.split())
    assert kept < usual / 10
