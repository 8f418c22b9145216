"""Norms of gradients and distances between them; a missing gradient counts as zero."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Elements per piece: the difference stays in the processor's cache, and the loop stays short.
PIECE = 1 << 16


class Compared(NamedTuple):
    """Norms of a gradient and of the true one, its distance from that, and the rounding floor."""

    used: float
    true: float
    error: float
    noise: float


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
    return math.sqrt(sum(_squares(a.double() - b) for a, b in _pieces(one, other)))


def compared(used: Tensor | None, true: Tensor | None, noisy: Tensor | None) -> Compared:
    """Compare a gradient, and one with nothing but rounding in it, with the true gradient.

    >>> import torch
    >>> compared(torch.tensor([3.0]), torch.tensor([4.0]), torch.tensor([2.0]))
    Compared(used=3.0, true=4.0, error=1.0, noise=2.0)
    """
    if used is None or true is None or noisy is None:
        return Compared(norm([used]), norm([true]), distance(used, true), distance(noisy, true))
    # In one pass: fetching a model's gradients from memory takes longer than comparing them.
    sums = [0.0] * 4
    for a, b, c in _pieces(used, true, noisy):
        a, b, c = a.double(), b.double(), c.double()
        for i, part in enumerate((a, b, a - b, c - b)):
            sums[i] += _squares(part)
    return Compared(*map(math.sqrt, sums))


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same elements of each tensor, piece by piece, so that they stay in the cache."""
    shape = tensors[0].shape
    rows = [_plain(tensor).reshape(shape).reshape(-1) for tensor in tensors]
    for start in range(0, len(rows[0]), PIECE):
        yield tuple(row[start : start + PIECE] for row in rows)


def _squares(tensor: Tensor) -> float:
    return float(tensor.dot(tensor))


def _size(tensor: Tensor) -> float:
    # Summed in float64, without the copies that a conversion and a square would make.
    return float(torch.linalg.vector_norm(_plain(tensor), dtype=torch.float64))


def _plain(tensor: Tensor) -> Tensor:
    return tensor.to_dense() if tensor.is_sparse else tensor
