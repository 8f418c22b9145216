"""The numbers that errors are measured against: 80-bit where the machine has it, else float64.

Everything is relative to the largest logit of a row, and the target is kept out of the sum, so that
1 - p survives where p is near 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Elsewhere `longdouble` may be float64 under another name, or something in software.
IS_80_BIT = bool(np.finfo(np.longdouble).nmant == 63)
WIDE: Any = np.longdouble if IS_80_BIT else np.float64
NAME = "80-bit numbers" if IS_80_BIT else "float64, sums rounded once (fsum)"

Wide = NDArray[Any]


@dataclass(frozen=True)
class Truth:
    """Cross-entropy of rows and what it is made of, in the widest numbers there are."""

    losses_N: Wide
    softmax_NV: Wide
    gradient_NV: Wide  # of the mean over the rows

    @property
    def loss(self) -> float:
        """The mean."""
        return math.fsum(map(float, self.losses_N)) / len(self.losses_N)

    @property
    def typical_row(self) -> int:
        """The row whose loss is nearest to the mean."""
        return int(np.abs(self.losses_N - self.loss).argmin())


def truth_of(logits_NV: NDArray[Any], targets_N: NDArray[np.int64]) -> Truth:
    """The true loss and gradient of rows of logits.

    >>> found = truth_of(np.array([[25.0, 0.0]]), np.array([0]))
    >>> f"{found.loss:.6e}", f"{float(found.gradient_NV[0, 0]):.6e}"
    ('1.388794e-11', '-1.388794e-11')
    """
    x = np.asarray(logits_NV).astype(WIDE)
    rows = np.arange(len(x))
    powers = np.exp(x - x.max(1, keepdims=True))
    own = powers[rows, targets_N].copy()
    powers[rows, targets_N] = 0
    others = sums_of(powers)
    total = others + own
    sure = own > total / 4
    with np.errstate(divide="ignore", over="ignore"):
        losses = np.where(
            sure,
            np.log1p(others / np.where(sure, own, 1)),
            np.log(total) + x.max(1) - x[rows, targets_N],
        )
    softmax = powers / total[:, None]
    gradient = softmax / len(x)
    softmax[rows, targets_N] = own / total
    gradient[rows, targets_N] = -others / total / len(x)
    return Truth(losses, softmax, gradient)


def sums_of(values_NV: Wide) -> Wide:
    """The sum of each row, right to the last digit of any narrower format.

    >>> float(sums_of(np.array([[1.0, 1e-17, -1.0]], WIDE))[0]) > 0
    True
    """
    if IS_80_BIT:
        summed: Wide = np.asarray(values_NV).astype(WIDE).sum(1)
        return summed
    return np.array([math.fsum(row) for row in np.asarray(values_NV, np.float64)])
