"""Sizes of gradients and the distance between them; one that is absent is zero."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from lossleuth.tape.window import dense

# Elements whose difference stays in the processor's cache.
PIECE = 1 << 15


def norm(gradients: Iterable[Tensor | None]) -> float:
    """L2 norm of all of them together, in float64.

    >>> import torch
    >>> norm([torch.tensor([3.0]), None, torch.tensor([4.0])])
    5.0
    """
    return math.hypot(*(_size(gradient) for gradient in gradients if gradient is not None))


def distance(one: Tensor | None, other: Tensor | None) -> float:
    """L2 norm of the difference.

    >>> import torch
    >>> distance(torch.tensor([1.0, 2.0]), None) == math.sqrt(5)
    True
    """
    if one is None or other is None:
        return norm([one, other])
    some, others = dense(one).reshape(-1), _plain(other).reshape(one.shape).reshape(-1)
    if len(some) <= PIECE:
        return _size(some - others)
    # In pieces, since a difference as large as a model would go to memory and back.
    pieces = (slice(start, start + PIECE) for start in range(0, len(some), PIECE))
    return math.hypot(*(_size(some[piece] - others[piece]) for piece in pieces))


def _size(tensor: Tensor) -> float:
    # Summed in float64, without the copies that a conversion and a square would make.
    return float(torch.linalg.vector_norm(_plain(tensor), dtype=torch.float64))


def _plain(tensor: Tensor) -> Tensor:
    return tensor.to_dense() if tensor.is_sparse else tensor
