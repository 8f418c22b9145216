"""The losses of rows and their gradient by torch: any device, any floating-point type, any layout.

The formulas are those of `losses.cpp` and `divergence.cpp`: powers relative to the row's largest,
in float32 or wider, summed in float64, the target's kept out. A few rows are looked at in one go,
so that no second copy of the logits is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Elements per portion.
PORTION = 1 << 20


class RowSums(NamedTuple):
    """What a row's loss is made of, in float64: powers are relative to the largest logit."""

    top: Tensor
    others: Tensor  # the sum of all powers but the target's
    own: Tensor
    logit: Tensor
    total: Tensor  # of the logits; read only where there is smoothing


def finish(
    sums: RowSums, width: int, inverse: float, smoothing: float, weight: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's loss, the factor of its powers in the gradient, and its target's gradient."""
    top, others, own, logit, total = sums
    everything = others + own
    loss = torch.where(
        own > everything / 4,
        torch.log1p(others / own),
        everything.log() + (top - logit) * inverse,
    )
    if smoothing:
        mean = everything.log() + (top - total / width) * inverse
        loss = (1 - smoothing) * loss + smoothing * mean
    scaled = weight * inverse
    of_target = (smoothing - smoothing / width - others / everything) * scaled
    return loss, scaled / everything, of_target


def cross_entropy_rows(
    logits: Tensor,
    targets: Tensor,
    counts: Tensor,
    *,
    temperature: float,
    smoothing: float,
    weight: float,
    exact: bool,
    gradient: Tensor | None,
) -> Tensor:
    """Each row's loss in float64; the gradient goes to `gradient`, which may be the logits."""
    losses = torch.zeros(targets.numel(), dtype=torch.float64, device=logits.device)
    width, inverse = logits.shape[-1], 1 / temperature
    for rows, x, to in _portions(logits, gradient):
        counted = counts[rows]
        target = targets[rows].where(counted, 0)[:, None]
        wide = x.to(_real(x, exact))
        top = _top(wide)
        logit = wide.gather(1, target).double()
        total = wide.sum(1, keepdim=True, dtype=torch.float64) if smoothing else logit
        wide = (wide - top) * inverse
        own = wide.gather(1, target).exp().double()
        powers = wide.scatter_(1, target, -torch.inf).exp_()
        others = powers.sum(1, keepdim=True, dtype=torch.float64)
        sums = RowSums(top.double(), others, own, logit, total)
        loss, factor, of_target = finish(sums, width, inverse, smoothing, weight)
        losses[rows] = loss[:, 0].where(counted, 0.0)
        if to is None:
            continue
        powers.mul_(factor.to(powers.dtype))
        if smoothing:
            powers.sub_(smoothing / width * weight * inverse)
        powers.scatter_(1, target, of_target.to(powers.dtype))
        to.copy_(powers.where(counted[:, None], 0.0))
    return losses


def divergence_rows(
    student: Tensor,
    teacher: Tensor,
    counts: Tensor,
    *,
    temperature: float,
    weight: float,
    exact: bool,
    gradient: Tensor | None,
) -> Tensor:
    """Each row's divergence in float64; the gradient of the student's logits to `gradient`."""
    losses = torch.zeros(counts.numel(), dtype=torch.float64, device=student.device)
    inverse = 1 / temperature
    pieces = zip(_portions(student, gradient), _portions(teacher, None), strict=True)
    for (rows, x, to), (_, y, _) in pieces:
        counted = counts[rows]
        wide_x, wide_y = (z.to(_real(z, exact)) for z in (x, y))
        above_x = ((wide_x - _top(wide_x)) * inverse).double()
        above_y = ((wide_y - _top(wide_y)) * inverse).double()
        power_x, power_y = above_x.exp(), above_y.exp()
        sum_x, sum_y = power_x.sum(1, keepdim=True), power_y.sum(1, keepdim=True)
        # What the teacher rules out adds nothing, whatever the student says of it.
        terms = torch.where(power_y == 0, 0.0, power_y * (above_y - above_x))
        loss = terms.sum(1, keepdim=True) / sum_y + (sum_x / sum_y).log()
        losses[rows] = loss[:, 0].where(counted, 0.0)
        if to is not None:
            difference = (power_x / sum_x - power_y / sum_y) * (weight * inverse)
            to.copy_(difference.where(counted[:, None], 0.0))
    return losses


def _portions(
    logits: Tensor, gradient: Tensor | None
) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
    """Some rows at a time: which they are, their logits, and where their gradient goes."""
    step = max(1, PORTION // logits.shape[-1])
    logits = logits.detach()
    groups = [logits] if logits.dim() == 2 else list(logits)
    targets = [gradient] if gradient is None or gradient.dim() == 2 else list(gradient)
    for i, group in enumerate(groups):
        before = i * len(group)
        to = targets[i] if gradient is not None else None
        for first in range(0, len(group), step):
            last = min(first + step, len(group))
            where = slice(before + first, before + last)
            yield where, group[first:last], None if to is None else to[first:last]


def _real(x: Tensor, exact: bool) -> torch.dtype:
    return torch.float64 if exact or x.dtype is torch.float64 else torch.float32


def _top(wide: Tensor) -> Tensor:
    """The largest of each row; where all are -inf, a number, so that differences to it are."""
    return wide.amax(1, keepdim=True).clamp(min=torch.finfo(wide.dtype).min)
