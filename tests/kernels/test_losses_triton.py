"""The GPU kernel, run by Triton's interpreter where Triton is installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lossleuth.kernels import losses_triton, row_losses
from lossleuth.kernels.losses_fallback import cross_entropy_rows as by_torch
from lossleuth.kernels.losses_triton import can_read

PROGRAM = """
import itertools, math, sys
sys.path.insert(0, sys.argv[1])
import torch
from slow_losses import check_answer, slow_cross_entropy
from lossleuth.kernels import losses_triton

losses_triton.BLOCK = 64
torch.manual_seed(0)
floats = (torch.float32, torch.bfloat16)
cases = itertools.product((3, 34, 64, 100, 200), floats, (False, True), ((1.0, 0.0), (2.5, 0.1)))
for width, dtype, exact, (temperature, smoothing) in cases:
    logits = (torch.randn(2, 3, width) * 3).to(dtype)
    logits[0, 0, 1] = -math.inf if smoothing == 0 else 0.0
    targets = torch.randint(2, width, (2, 3))
    mask = torch.arange(6).view(2, 3) != 4
    options = {"temperature": temperature, "label_smoothing": smoothing, "reduction": "sum"}
    expected = slow_cross_entropy(logits, targets, mask=mask, exact=exact, **options)
    # In place, but for brain floats, which the interpreter cuts off instead of rounding them.
    gradient = logits if dtype is torch.float32 else torch.empty(logits.shape)
    losses = losses_triton.cross_entropy_rows(
        logits, targets.view(-1), mask.view(-1), temperature=temperature, smoothing=smoothing,
        weight=1.0, exact=exact, gradient=gradient,
    )
    check_answer(losses, gradient.double(), expected)
print("agreed")
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no Triton")
def test_triton_gives_the_reference() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[1] / "support")],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "agreed", done.stderr


def test_it_reads_rows_of_narrow_floats_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses_triton, "triton", object())
    assert can_read(torch.zeros(3, 4)) and can_read(torch.zeros(2, 3, 4).bfloat16())
    assert not can_read(torch.zeros(3, 4).double()) and not can_read(torch.zeros(3, 4).t())
    monkeypatch.setattr(losses_triton, "triton", None)
    assert not can_read(torch.zeros(3, 4))


def test_without_a_gpu_torch_does_it() -> None:
    assert row_losses._without_library(torch.zeros(3, 4), None) is by_torch
