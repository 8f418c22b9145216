"""How near numbers are to the limits of a format, and what scaling the loss would save."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.number_formats import FORMATS, NumberFormat

NARROW = ("float16", "bfloat16")


@dataclass(frozen=True)
class InFormat:
    """What would become of the numbers in a format, as shares of those that are not 0."""

    format: str
    # How many times the largest can double before it is infinite.
    room: float
    overflow: float
    flushed: float
    # Below the smallest normal number, where digits get lost.
    subnormal: float
    # What loss scaling could do: the largest power of two that keeps all finite, and what is still
    # flushed then.
    scale: float = 1.0
    flushed_scaled: float = math.nan


@dataclass(frozen=True)
class Range:
    """A class of tensors: its largest and smallest number, and what formats would do to it."""

    name: str
    count: int
    largest: float
    smallest: float
    formats: tuple[InFormat, ...]


def range_of(name: str, tensors: Sequence[Tensor], *, scaled: bool = False) -> Range:
    """The range of some tensors; with `scaled`, what a loss scale would save.

    >>> found = range_of("gradients", [torch.tensor([1e-9, 1e-3])], scaled=True)
    >>> half = found.formats[0]
    >>> half.format, half.flushed, half.scale, half.flushed_scaled
    ('float16', 0.5, 33554432.0, 0.0)
    """
    sizes = torch.cat([t.detach().flatten().double() for t in tensors]).abs()
    there = sizes[(sizes > 0) & sizes.isfinite()]
    largest = float(sizes.max()) if len(sizes) else math.nan
    if not math.isfinite(largest) and len(there):
        # The head-room of what is finite; what is not is counted as overflow.
        largest = float(there.max())
    broken = int((~sizes.isfinite()).sum())
    formats = tuple(
        _in_format(FORMATS[one], there, largest, broken, scaled=scaled) for one in NARROW
    )
    smallest = float(there.min()) if len(there) else math.nan
    return Range(name, len(sizes), largest, smallest, formats)


def _in_format(
    kind: NumberFormat, there: Tensor, largest: float, broken: int, *, scaled: bool
) -> InFormat:
    dtype = getattr(torch, kind.name)
    counted = len(there) + broken
    if not counted:
        return InFormat(kind.name, math.nan, 0.0, 0.0, 0.0)
    stored = there.to(dtype)
    overflow = (int(stored.isinf().sum()) + broken) / counted
    flushed = int((stored == 0).sum()) / counted
    small = int(((stored > 0) & (stored.double() < kind.smallest_normal)).sum()) / counted
    room = kind.room(largest)
    if not scaled or not math.isfinite(room):
        return InFormat(kind.name, room, overflow, flushed, small)
    scale = 2.0 ** math.floor(room)
    left = int(((there * scale).to(dtype) == 0).sum()) / counted
    return InFormat(kind.name, room, overflow, flushed, small, scale, left)


@dataclass(frozen=True)
class Overflow:
    """Where an exponential of logits would fail: in the formula, in the value, or not at all."""

    format: str
    where: str  # "nowhere", "formula" or "value"
    largest: float
    remedy: str


def overflow_of(logits: Tensor, format: str) -> Overflow:
    """Whether logits fit a format, and whether their exponential without the maximum would.

    >>> overflow_of(torch.tensor([12.0]), "float16").where
    'formula'
    >>> overflow_of(torch.tensor([70_000.0]), "float16").where
    'value'
    >>> overflow_of(torch.tensor([12.0]), "bfloat16").where
    'nowhere'
    """
    kind = FORMATS[format]
    finite = logits.double()[logits != -math.inf]
    largest = float(finite.max())
    if not float(finite.abs().max()) <= kind.largest:
        return Overflow(
            format, "value", largest, "no formula helps: a wider format, or smaller logits"
        )
    if largest > kind.largest_exponent:
        return Overflow(
            format, "formula", largest, "take the largest off before exp: log_softmax does"
        )
    return Overflow(format, "nowhere", largest, "none needed")
