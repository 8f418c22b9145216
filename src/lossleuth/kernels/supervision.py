"""Supervised positions of a batch and their targets.

A position counts unless its target is the ignored index or a mask says no. What stands at a
position that does not count is never looked at: not its target, not its logits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.native import library as native

INTEGERS = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8} | {
    getattr(torch, f"uint{bits}") for bits in (16, 32, 64)
}


class NothingSupervised(ValueError):
    """A mean over no positions is not 0 and not NaN: it does not exist."""


@dataclass(frozen=True)
class Supervision:
    """Targets and mask in one row, and how many positions count."""

    targets: Tensor
    mask: Tensor | None
    ignored: int
    count: int

    def counts(self) -> Tensor:
        """Whether each position counts.

        >>> supervise(torch.tensor([3, -100]), None, (2, 5), -100).counts()
        tensor([ True, False])
        """
        counts = self.targets != self.ignored
        return counts if self.mask is None else counts & self.mask

    def part(self, first: int, last: int) -> Supervision:
        """Some of the positions; the count stays that of all."""
        mask = None if self.mask is None else self.mask[first:last]
        return Supervision(self.targets[first:last], mask, self.ignored, self.count)


def supervise(
    targets: Tensor, mask: Tensor | None, shape: tuple[int, ...], ignored: int
) -> Supervision:
    """The supervision of logits of a shape, refused where it does not fit them.

    >>> supervise(torch.tensor([[3, -100]]), None, (1, 2, 5), -100).count
    1
    >>> supervise(torch.tensor([[3, 7]]), None, (1, 2, 5), -100)
    Traceback (most recent call last):
    ValueError: expected targets from 0 to 4, or -100 where there is none, found 7 at position \
(0, 1): are targets and logits of one vocabulary?
    """
    places, columns = shape[:-1], shape[-1]
    if targets.dtype not in INTEGERS:
        raise TypeError(f"expected integer targets, found {targets.dtype}: targets are columns")
    if targets.shape != places:
        raise ValueError(
            f"expected targets of shape {tuple(places)} for logits of shape {tuple(shape)}, "
            f"found {tuple(targets.shape)}: one target for each row of logits"
        )
    flat = targets
    if targets.dim() != 1 or targets.dtype is not torch.int64 or not targets.is_contiguous():
        flat = targets.detach().reshape(-1).to(torch.int64).contiguous()
    flat_mask = flat_mask_of(mask, places)
    wrong, count = _examine(flat, flat_mask, ignored, columns)
    if wrong >= 0:
        where = tuple(int(i) for i in torch.unravel_index(torch.tensor(wrong), places))
        raise ValueError(
            f"expected targets from 0 to {columns - 1}, or {ignored} where there is none, found "
            f"{int(flat[wrong])} at position {where if len(where) > 1 else where[0]}: are targets "
            "and logits of one vocabulary?"
        )
    return Supervision(flat, flat_mask, ignored, count)


def flat_mask_of(mask: Tensor | None, places: Sequence[int]) -> Tensor | None:
    """A mask in one row of booleans: True, or not 0, where a position counts."""
    if mask is None:
        return None
    if mask.is_floating_point() or mask.is_complex():
        raise TypeError(
            f"expected a mask of booleans or of 0 and 1, found {mask.dtype}: positions count or "
            "do not; weigh them after reduction='none'"
        )
    if mask.shape != tuple(places):
        raise ValueError(
            f"expected a mask of shape {tuple(places)}, found {tuple(mask.shape)}: it says of each "
            "row of logits whether it counts"
        )
    return (mask.detach().reshape(-1) != 0).contiguous()


def require_some(count: int, places: tuple[int, ...]) -> None:
    """Refuse a mean over nothing."""
    if not count:
        raise NothingSupervised(
            f"expected at least one position that counts, found none in a batch of "
            f"{tuple(places)}: each is ignored or masked; reduction='sum' is 0 there"
        )


def address(tensor: Tensor | None) -> int:
    """Where a tensor's numbers lie, for the native code; 0 where there is no tensor."""
    return 0 if tensor is None else tensor.data_ptr()


def _examine(targets: Tensor, mask: Tensor | None, ignored: int, columns: int) -> tuple[int, int]:
    """The first position that counts and whose target is no column, or -1; and how many count."""
    library = native.load()
    if library is not None and targets.is_cpu and (mask is None or mask.is_cpu):
        places = (targets.data_ptr(), address(mask), targets.numel())
        wrong, count = library.supervised(*places, ignored, columns)
        return wrong, count
    counts = targets != ignored
    counts = counts if mask is None else counts & mask
    wrong_ones = (counts & ((targets < 0) | (targets >= columns))).nonzero()
    return int(wrong_ones[0]) if len(wrong_ones) else -1, int(counts.sum())
