"""Which tensors the library reads, and what torch does instead."""

from __future__ import annotations

import math

import pytest
import torch
from needs import need_native

from lossleuth.kernels import losses_fallback, row_losses
from lossleuth.kernels.row_losses import Options, cross_entropy_rows, divergence_rows, in_rows
from lossleuth.kernels.supervision import supervise
from lossleuth.native import library as native


class Marked(torch.Tensor):
    """A tensor that may keep its numbers anywhere."""


CASES = {
    "rows": (torch.randn(6, 40), True),
    "brain floats": (torch.randn(6, 40).bfloat16(), True),
    "some columns": (torch.randn(6, 60)[:, 3:43], True),
    "transposed": (torch.randn(40, 6).t(), False),
    "float64": (torch.randn(6, 40).double(), False),
    "float16": (torch.randn(6, 40).half(), False),
    "a subclass": (torch.randn(6, 40).as_subclass(Marked), False),
}


@pytest.mark.parametrize("name", CASES)
def test_the_library_reads_what_it_can(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need_native()
    logits, ours = CASES[name]
    used = []
    real = losses_fallback.cross_entropy_rows
    monkeypatch.setattr(
        losses_fallback, "cross_entropy_rows", lambda *a, **k: used.append(1) or real(*a, **k)
    )
    supervision = supervise(torch.arange(6), None, (6, 40), -100)
    gradient = torch.empty(6, 40, dtype=logits.dtype)
    losses, total = cross_entropy_rows(logits, supervision, Options(), gradient)
    assert bool(used) is not ours
    expected = torch.nn.functional.cross_entropy(
        torch.Tensor(logits.float()), torch.arange(6), reduction="none"
    )
    torch.testing.assert_close(losses.float(), expected, rtol=1e-5, atol=1e-6, check_dtype=False)
    assert total == pytest.approx(float(expected.sum()), rel=1e-5)


@pytest.mark.parametrize("width", [34, 200])
def test_the_sum_needs_no_losses_of_rows(width: int) -> None:
    need_native()
    logits, targets = torch.randn(20, width), torch.arange(20)
    supervision = supervise(targets, None, (20, width), -100)
    losses, total = cross_entropy_rows(logits, supervision, Options(), None)
    alone, same = cross_entropy_rows(logits, supervision, Options(), None, each=False)
    assert len(losses) == 20 and len(alone) == 0 and same == total
    assert total == pytest.approx(float(losses.sum()), rel=1e-15)


def test_the_sum_is_that_of_every_row_and_of_none_twice() -> None:
    """Eight sums side by side, and what is left over."""
    need_native()
    for rows in range(1, 20):
        logits = torch.zeros(rows, 2)
        supervision = supervise(torch.zeros(rows, dtype=torch.long), None, (rows, 2), -100)
        for row in range(rows):
            logits[row, 0] = -(2.0**row)
        losses, total = cross_entropy_rows(logits, supervision, Options(exact=True), None)
        assert total == math.fsum(losses.tolist())
        logits[rows // 2, 0] = -math.inf
        assert cross_entropy_rows(logits, supervision, Options(), None)[1] == math.inf


def test_freed_memory_is_not_read() -> None:
    need_native()
    logits = torch.randn(6, 40)
    logits.untyped_storage().resize_(0)
    assert row_losses._layout(logits) is None


def test_rows_in_one_piece() -> None:
    assert in_rows(torch.zeros(3, 1)) and in_rows(torch.zeros(2, 3, 4)[:, ::2])
    assert not in_rows(torch.zeros(3, 4)[:, ::2])


def test_few_numbers_are_left_to_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert row_losses._threads(torch.empty(10, 10)) == 1
    assert row_losses._threads(torch.empty(1000, 1000)) == 7


def test_memory_that_runs_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    need_native()
    library = native.load()
    monkeypatch.setattr(library, "cross_entropy", lambda *_: (1, 0.0))
    monkeypatch.setattr(library, "divergence", lambda *_: (1, 0.0))
    x = torch.zeros(2, 3)
    with pytest.raises(MemoryError, match="memory for a few rows"):
        cross_entropy_rows(x, supervise(torch.tensor([0, 1]), None, (2, 3), -100), Options(), None)
    with pytest.raises(MemoryError, match="memory for a few rows"):
        divergence_rows(x, x, None, Options(), None)


def test_weights_of_mean_and_sum() -> None:
    assert Options(2.0).weighing(4.0, 8, "mean") == Options(2.0, weight=0.5)
    assert Options(2.0).weighing(4.0, 8, "none") == Options(2.0, weight=4.0)
