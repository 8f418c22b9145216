"""Batches of logits in many layouts, and the check that cross-entropy must pass on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from slow_losses import check_answer, slow_cross_entropy
from torch import Tensor

from lossleuth.kernels import cross_entropy

FLOATS = [torch.float32, torch.bfloat16]


LAYOUTS: dict[str, Callable[[int, int], Tensor]] = {
    "rows": lambda n, v: torch.empty(n, v),
    "batches": lambda n, v: torch.empty(2, n, v),
    "without the last position": lambda n, v: torch.empty(3, n + 1, v)[:, :-1],
    "some columns": lambda n, v: torch.empty(n, v + 3)[:, 1 : v + 1],
    "every other row": lambda n, v: torch.empty(2 * n, v)[::2],
    "transposed": lambda n, v: torch.empty(v, n).t(),
    "batches second": lambda n, v: torch.empty(n, 3, v).transpose(0, 1),
    "misaligned": lambda n, v: torch.empty(n * v + 1)[1:].view(n, v),
}


def batch(rows: int, width: int, scale: float = 3.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, width, generator=generator) * scale
    return logits, torch.randint(0, width, (rows,), generator=generator)


def check_autograd(logits: Tensor, targets: Tensor, upstream: float = 1.0, **options: Any) -> None:
    """The loss and the gradient through autograd, without changing the logits."""
    before = logits.clone()
    leaf = logits.detach().requires_grad_()
    loss = cross_entropy(leaf, targets, **options)
    loss.backward(torch.full_like(loss, upstream))
    assert torch.equal(logits.nan_to_num(), before.nan_to_num())
    assert leaf.grad is not None and leaf.grad.dtype is logits.dtype
    gradient = leaf.grad.double() / upstream
    check_answer(loss.detach(), gradient, slow_cross_entropy(logits, targets, **options))
    with torch.no_grad():
        assert torch.equal(cross_entropy(leaf, targets, **options), loss)
