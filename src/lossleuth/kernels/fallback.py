"""The statistics of one tensor in plain torch: any device, any layout, no library needed.

The native code and these functions agree to rounding: sums are in float64, and the direction is
computed in float32 unless one of its tensors is in float64.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.kernels.blocks import BLOCK

# Added to the root of a second moment at least, so that 0 / 0 is a direction of 0, not NaN.
SMALLEST_EPSILON = 1e-30

# Offsets and lengths.
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]


def gradient_statistics(gradient: Tensor) -> Tensor:
    """Sum, sum of squares, largest size, zeros and non-finite elements of a gradient.

    >>> gradient_statistics(torch.tensor([3.0, 0.0, -4.0])).tolist()
    [-1.0, 25.0, 4.0, 1.0, 0.0]
    """
    values, unstored = _stored(gradient)
    x = values.to(torch.float64)
    if unstored:
        x = torch.cat((x, x.new_zeros(1)))
    largest = x.abs().max() if len(x) else _missing(x)
    zeros = (x == 0).sum() + max(unstored - 1, 0)
    return _row([x.sum(), (x * x).sum(), largest, zeros, (~x.isfinite()).sum()])


def update_statistics(
    p: Tensor,
    before: Tensor,
    *,
    gradient: Tensor | None,
    first: Tensor | None,
    second: Tensor | None,
    threshold: float,
    count: int,
) -> Tensor:
    """The statistics that need a weight's value before the update, from flat tensors.

    In order: squares of weights and of changes, non-finite weights, squares of the direction, those
    swallowed, squares of the first moment, sum and smallest of the second, how many of its roots
    are under the threshold, and the share of `count` elements that the tensors hold. Sums and
    counts are scaled up to the whole.
    """
    missing = _missing(p)
    now = p.to(torch.float64)
    change = now - before.to(torch.float64)
    wanted = swallowed = first_squares = second_sum = smallest = under = missing
    numerator = gradient if first is None else first
    used = [t.dtype for t in (p, numerator, second) if t is not None]
    real = torch.float64 if torch.float64 in used else torch.float32
    if first is not None:
        first_squares = _squares(first)
    root = None
    if second is not None:
        root = second.to(real).sqrt()
        second_sum = second.to(torch.float64).sum()
        if len(second):
            smallest = torch.where(second_sum.isnan(), missing, second.min())
        if not math.isnan(threshold):
            under = (root < torch.tensor(threshold, dtype=real, device=root.device)).sum()
    if numerator is not None:
        direction = numerator.to(real)
        if root is not None:
            epsilon = threshold if threshold > SMALLEST_EPSILON else SMALLEST_EPSILON
            direction = direction / (root + epsilon)
        squares = direction.to(torch.float64).square()
        wanted = squares.sum()
        swallowed = torch.where(p == before, squares, 0.0).sum()
    share = len(p) / count if len(p) else 1.0
    sums = _row([(now * now).sum(), (change * change).sum(), (~now.isfinite()).sum(), wanted])
    moments = _row([swallowed, first_squares, second_sum])
    return torch.cat(
        (sums / share, moments / share, _row([smallest, under / share, missing.fill_(share)]))
    )


def flat(tensor: Tensor) -> Tensor:
    """Every real number of a tensor, in one row: the part on this rank, real and imaginary parts.

    >>> flat(torch.tensor([1 + 2j])).tolist()
    [1.0, 2.0]
    """
    tensor = _local(tensor)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return _real(tensor).reshape(-1)


def pick(values: Tensor, spans: Spans | None) -> Tensor:
    """The flat values that lie in the spans, given as offsets and lengths; without spans, all."""
    if spans is None or spans[1].sum() == len(values):
        return values
    # Only blocks of one length are left out, and only a tensor's last can be shorter.
    offsets, lengths = spans
    whole = torch.from_numpy(offsets[lengths == BLOCK] // BLOCK).to(values.device)
    rows = values[: len(values) // BLOCK * BLOCK].view(-1, BLOCK)
    rest = offsets[lengths < BLOCK].tolist()
    return torch.cat([rows[whole].view(-1), *(values[offset:] for offset in rest)])


def is_held(tensor: Tensor) -> bool:
    """Whether the memory of a dense tensor is still there: storage can be freed or cut down.

    >>> weight = torch.ones(4)
    >>> _ = weight.untyped_storage().resize_(0)
    >>> is_held(weight)
    False
    """
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    return tensor.numel() == 0 or tensor.untyped_storage().nbytes() >= needed


def _stored(tensor: Tensor) -> tuple[Tensor, int]:
    """The stored numbers, and how many zeros are not stored."""
    tensor = _local(tensor)
    if tensor.layout is torch.sparse_coo:
        values = _real(tensor.coalesce().values()).reshape(-1)
        parts = 2 if tensor.is_complex() else 1
        return values, tensor.numel() * parts - len(values)
    return flat(tensor), 0


def _local(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_meta:
        raise ValueError("it has a shape but no values")
    if type(tensor) is Tensor and tensor.layout is torch.strided and not is_held(tensor):
        raise ValueError("its storage was freed")
    # Apple's devices have no float64.
    return tensor.cpu() if tensor.device.type == "mps" else tensor


def _real(tensor: Tensor) -> Tensor:
    tensor = tensor.resolve_neg()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _squares(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float64).square().sum()


def _missing(like: Tensor) -> Tensor:
    return torch.full((), math.nan, dtype=torch.float64, device=like.device)


def _row(numbers: list[Tensor]) -> Tensor:
    return torch.stack([number.to(torch.float64) for number in numbers])
