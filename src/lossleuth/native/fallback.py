"""The statistics of one tensor without the library: any device, any layout, any type.

What lies in this machine's memory is read by numpy, whose calls cost a tenth of torch's on small
tensors; the rest is read by torch, where it lies. The formulas are written once for both, and agree
with the native code to rounding: sums are in float64, and the direction is computed in float32
unless one of its tensors is in float64.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.native.blocks import BLOCK
from lossleuth.native.table import look_up
from lossleuth.native.views import NUMPY_TYPES, flat_view
from lossleuth.torch_internals import is_all_zero_by_type

# Added to the root of a second moment at least, so that 0 / 0 is a direction of 0, not NaN.
SMALLEST_EPSILON = 1e-30

# A flat array of numpy or a flat tensor of torch, and one of its numbers.
Array = Any
Number = Any
# Offsets and lengths.
Spans = tuple[NDArray[np.int64], NDArray[np.int64]]


def gradient_statistics(gradient: Tensor) -> list[Number]:
    """Sum, sum of squares, largest size, zeros and non-finite elements of a gradient.

    >>> [float(number) for number in gradient_statistics(torch.tensor([3.0, 0.0, -4.0]))]
    [-1.0, 25.0, 4.0, 1.0, 0.0]
    """
    unstored = 0
    if gradient.layout is torch.sparse_coo:
        values = flat(local(gradient).coalesce().values())
        unstored = gradient.numel() * (2 if gradient.is_complex() else 1) - len(values)
    else:
        values = flat(gradient)
    x, of = _wide(values), _module(values)
    largest = of.abs(x).max() if len(x) else (0.0 if unstored else math.nan)
    return [x.sum(), (x * x).sum(), largest, (x == 0).sum() + unstored, (~of.isfinite(x)).sum()]


def update_statistics(
    p: Array,
    before: Array,
    *,
    gradient: Array | None,
    first: Array | None,
    second: Array | None,
    threshold: float,
    count: int,
) -> list[Number]:
    """The statistics that need a weight's value before the update.

    In order: squares of weights and of changes, non-finite weights, squares of the direction, those
    swallowed, squares of the first moment, sum and smallest of the second, how many of its roots
    are under the threshold, and the share of `count` elements that the arrays hold. Sums and counts
    are scaled up to the whole.
    """
    of = _module(p)
    now = _wide(p)
    change = now - _wide(before)
    wanted = swallowed = first_squares = second_sum = smallest = under = math.nan
    numerator = gradient if first is None else first
    if first is not None:
        first_squares = (_wide(first) * _wide(first)).sum()
    divisor = None
    used = [array.dtype for array in (p, numerator, second) if array is not None]
    real = of.float64 if of.float64 in used else of.float32
    if second is not None:
        root = of.sqrt(of.asarray(second, dtype=real))
        second_sum = _wide(second).sum()
        if len(second):
            smallest = of.where(of.isnan(second_sum), math.nan, second.min())
        if not math.isnan(threshold):
            under = (root < of.asarray(threshold, dtype=real)).sum()
        epsilon = threshold if threshold > SMALLEST_EPSILON else SMALLEST_EPSILON
        divisor = root + of.asarray(epsilon, dtype=real)
    if numerator is not None:
        direction = of.asarray(numerator, dtype=real)
        direction = _wide(direction if divisor is None else direction / divisor)
        wanted = (direction * direction).sum()
        swallowed = of.where(p == before, direction * direction, 0.0).sum()
    share = len(p) / count if len(p) else 1.0
    sums = [(now * now).sum(), (change * change).sum(), (~of.isfinite(now)).sum()]
    sums += [wanted, swallowed, first_squares, second_sum]
    return [*(number / share for number in sums), smallest, under / share, share]


def flat(tensor: Tensor) -> Array:
    """Every real number of a tensor, in one row: the part on this rank, real and imaginary parts.

    >>> flat(torch.tensor([1 + 2j])).tolist()
    [1.0, 2.0]
    """
    if tensor.dtype in NUMPY_TYPES and look_up([tensor], [tensor.numel()]):
        return flat_view(tensor)
    tensor = local(tensor)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if is_all_zero_by_type(tensor):
        # It has a size and no memory.
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype is not torch.float64:
        tensor = tensor.to(torch.float32 if tensor.is_floating_point() else torch.float64)
    row = tensor.reshape(-1).contiguous()
    return flat_view(row) if row.is_cpu else row


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor on this rank, without its history."""
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_meta:
        raise ValueError("it has a shape but no values")
    if type(tensor) is Tensor and tensor.layout is torch.strided and not is_held(tensor):
        raise ValueError("its storage was freed")
    # Apple's devices have no float64.
    return tensor.cpu() if tensor.device.type == "mps" else tensor


def is_held(tensor: Tensor) -> bool:
    """Whether the memory of a dense tensor is still there: storage can be freed or cut down.

    >>> weight = torch.ones(4)
    >>> _ = weight.untyped_storage().resize_(0)
    >>> is_held(weight)
    False
    """
    extent = count = tensor.numel()
    if count and not tensor.is_contiguous():
        sides = zip(tensor.shape, tensor.stride(), strict=True)
        extent = sum((n - 1) * step for n, step in sides) + 1
    needed = (tensor.storage_offset() + extent) * tensor.element_size()
    return count == 0 or tensor.untyped_storage().nbytes() >= needed


def pick(values: Array, spans: Spans | None) -> Array:
    """The flat values that lie in the spans; without spans, all."""
    if spans is None:
        return values
    # Only blocks of one length are left out, and only a tensor's last can be shorter.
    offsets, lengths = spans
    rows = values[: len(values) // BLOCK * BLOCK].reshape(-1, BLOCK)
    whole = rows[(offsets[lengths == BLOCK] // BLOCK).tolist()].reshape(-1)
    rest = [values[offset:] for offset in offsets[lengths < BLOCK].tolist()]
    return _module(values).concatenate([whole, *rest])


def _module(array: Array) -> ModuleType:
    return torch if isinstance(array, Tensor) else np


def _wide(array: Array) -> Array:
    of: Any = _module(array)
    return of.asarray(array, dtype=of.float64)
