"""Reusing memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

# glibc always maps blocks of this size afresh unless it is told otherwise; smaller ones it learns
# to keep by itself in some layouts of the heap.
PROGRAM = """
import resource, sys, torch
from lossleuth.reference.train.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def use():
    torch.empty(40 << 20, dtype=torch.uint8).fill_(1)
for _ in range(16):  # glibc grows the heap a few times before it reuses aligned blocks
    use()
before = faults()
for _ in range(6):
    use()
print(faults() - before)
"""


def faults(how: str) -> int:
    """Page faults of using a large block six times, after some to warm up."""
    run = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc")
def test_memory_that_is_kept_is_not_faulted_in_again() -> None:
    default, kept = faults("default"), faults("keep")
    assert default > 6 * 1000
    assert kept < default / 10
