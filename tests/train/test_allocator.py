"""Reusing memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
sys.path.insert(0, sys.argv[2])
from lossleuth.train.allocator import keep_freed_memory
from lossleuth.train.loss import mean_loss
from lossleuth.train.model import LanguageModel, ModelShape
torch.set_num_threads(1)
if sys.argv[1] == "keep":
    assert keep_freed_memory()
model = LanguageModel(ModelShape(100, 128, 2, 4, 128, positions="rotary"))
tokens = torch.randint(0, 100, (16, 128))
def step():
    mean_loss(model(tokens), tokens).backward()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    step()
before = faults()
for _ in range(6):
    step()
print(faults() - before)
"""


def faults(how: str) -> int:
    """Page faults of six training steps after a few to warm up."""
    run = [sys.executable, "-c", PROGRAM, how, "."]
    return int(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc")
def test_steps_fault_far_fewer_pages_in_when_memory_is_kept() -> None:
    default, kept = faults("default"), faults("keep")
    assert kept < default / 3
