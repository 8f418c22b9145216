"""Sizes of gradients and the distance between them; one that is absent is zero."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch import Tensor

from lossleuth.tape.window import dense


def norm(gradients: Iterable[Tensor | None]) -> float:
    """L2 norm of all of them together, in float64.

    >>> import torch
    >>> norm([torch.tensor([3.0]), None, torch.tensor([4.0])])
    5.0
    """
    there = [dense(gradient) for gradient in gradients if gradient is not None]
    return math.sqrt(sum(float((gradient * gradient).sum()) for gradient in there))


def distance(one: Tensor | None, other: Tensor | None) -> float:
    """L2 norm of the difference.

    >>> import torch
    >>> distance(torch.tensor([1.0, 2.0]), None) == math.sqrt(5)
    True
    """
    if one is None or other is None:
        return norm([one, other])
    return norm([dense(one) - dense(other).reshape(one.shape)])
