"""Invariants of the gradient of any cross-entropy.

Adding a constant to all logits of a row changes nothing, so the gradient of a row sums to zero;
raising the target's logit lowers the loss; a masked position has no gradient. Kernels work on
blocks, and break at sizes just beside a multiple of theirs: so several sizes are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lossleuth.gradcheck.check import GradientCheck, Outcome, check_gradient
from lossleuth.gradcheck.problems import Vector

SIZES = (2, 3, 10, 34, 100, 1000, 1024, 1025)
ROWS = 6
# Largest sum over a row, in units of the last digit of the largest entry. Picked by hand.
MAX_ULPS = 16.0


@dataclass(frozen=True)
class LossCheck:
    """One vocabulary size; `broken` names the invariants that do not hold."""

    size: int
    outcome: Outcome
    broken: tuple[str, ...]
    # Largest sum of a row's gradient, over the largest entry.
    row_sum: float
    gradient: GradientCheck

    def __bool__(self) -> bool:
        return self.outcome is Outcome.PASS


def check_loss(
    loss: Callable[..., Any],
    gradient: Callable[..., Any] | None = None,
    *,
    sizes: Sequence[int] = SIZES,
    ignored: int | None = None,
    dtype: torch.dtype = torch.float64,
    arrays: bool = False,
    seed: int = 0,
) -> list[LossCheck]:
    """Check a cross-entropy `loss(logits, targets)` at several vocabulary sizes.

    Its gradient for the logits is torch's own, or `gradient(logits, targets)`. With `ignored`,
    some targets are that value and must have no gradient. With `arrays`, both functions get numpy
    arrays.

    >>> from torch.nn import functional as F
    >>> all(check_loss(F.cross_entropy, sizes=(2, 10)))
    True
    """
    return [_check(loss, gradient, size, ignored, dtype, arrays, seed) for size in sizes]


def _check(
    loss: Callable[..., Any],
    gradient: Callable[..., Any] | None,
    size: int,
    ignored: int | None,
    dtype: torch.dtype,
    arrays: bool,
    seed: int,
) -> LossCheck:
    generator = torch.Generator().manual_seed(seed + size)
    drawn = torch.randn(ROWS, size, generator=generator, dtype=torch.float64)
    logits, targets = (3 * drawn).to(dtype), torch.randint(0, size, (ROWS,), generator=generator)
    masked = torch.zeros(ROWS, dtype=torch.bool)
    if ignored is not None:
        masked[[0, ROWS - 1]] = True
        targets[masked] = ignored
    values: Any = logits.numpy() if arrays else logits
    labels: Any = targets.numpy() if arrays else targets
    if gradient is None:
        claimed = _by_torch(loss, logits, targets)
        checked = check_gradient(lambda x: loss(x, targets), [logits], seed=seed)
    else:
        claimed = _array(gradient(values, labels))
        checked = check_gradient(
            loss=lambda x: loss(x, labels), gradient=[claimed], parameters=[values], seed=seed
        )
    largest = float(np.abs(claimed).max()) or 1.0
    epsilon = float(torch.finfo(dtype).eps)
    row_sum = float(np.abs(claimed.sum(-1)).max()) / largest
    kept = ~masked.numpy()
    at_target = claimed[np.arange(ROWS)[kept], targets.numpy()[kept]]
    broken = []
    if not np.isfinite(claimed).all():
        broken.append("every entry is finite")
    if not row_sum <= MAX_ULPS * epsilon * np.sqrt(size):
        broken.append("a row sums to zero")
    if (at_target > 0).any():
        broken.append("the target's entry is not positive")
    if claimed[~kept].any():
        broken.append("a masked position has no gradient")
    outcome = Outcome.FAIL if broken else checked.outcome
    return LossCheck(size, outcome, tuple(broken), row_sum, checked)


def _by_torch(loss: Callable[..., Any], logits: Tensor, targets: Tensor) -> Vector:
    given = logits.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(given, targets), given)
    return _array(found)


def _array(value: Any) -> Vector:
    if isinstance(value, Tensor):
        value = value.detach().double().cpu().numpy()
    return np.asarray(value, dtype=np.float64)
