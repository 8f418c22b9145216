"""Targets of a loss that is written by hand, read off its gradient.

Whatever a program does to logits, the gradient of a cross-entropy is the probabilities minus the
target's one: a row that is proportional to its softmax but for one entry. That entry is the
target, and the factor is how much the row counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import MOVES
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts
from lossleuth.tape.roles.loss_gradient import gradient_at
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Backward, Window

# Operations that losses of logits are made of.
_LOSSES = frozenset(
    (
        *("_log_softmax", "_softmax", "log_softmax", "softmax", "logsumexp"),
        *("binary_cross_entropy_with_logits", "sigmoid", "log_sigmoid_forward", "softplus"),
    )
)
# Tensors that are tried. Picked by hand: a replay each, most of them short.
MAX_TRIED = 6
# Classes without which any gradient would fit.
MIN_CLASSES = 5
# How far a row's gradient may be from that of a cross-entropy, as a share; float64 gives 1e-12,
# an operation that exists in float32 alone 1e-6. And the share of rows that have to fit.
MAX_MISFIT, MIN_FITTING = 1e-4, 0.99
# How far the target has to stand out, as a share of the row's gradient; it is 0.7 at least for a
# plain cross-entropy. And the relative variance of probabilities below which they are all the same.
MIN_PULL, MIN_VARIANCE = 0.3, 1e-20
# Share of rows with several answers of yes beyond which these are sets of labels.
MAX_SETS = 0.5
# Gradients that are smaller than this share of the largest are those of rows that do not count.
MIN_WEIGHT = 1e-9


@dataclass(frozen=True)
class InferredTargets:
    """Logits, where they are taken, their class axis, and the target of each row (or -1)."""

    scores: int
    at: int
    axis: int
    targets: Tensor
    # Each class has a loss of its own.
    binary: bool = False


def infer_targets(window: Window, run: Backward) -> InferredTargets | None:
    """The last tensor whose gradient is that of a cross-entropy; None if there is none."""
    for number, at in _candidates(window.tape, run):
        try:
            value, gradient = gradient_at(window, run, number, at, Cuts.OPENED)
        except CannotReplay:
            continue
        for axis in reversed(range(value.dim())):
            if value.shape[axis] < MIN_CLASSES:
                continue
            rows, slopes = (
                t.movedim(axis, -1).reshape(-1, t.shape[axis]) for t in (value, gradient)
            )
            targets = softmax_targets(rows, slopes)
            if targets is not None:
                return InferredTargets(number, at, axis, targets)
            targets = binary_targets(rows, slopes)
            if targets is not None:
                return InferredTargets(number, at, axis, targets, binary=True)
    return None


def softmax_targets(rows: Tensor, gradient: Tensor) -> Tensor | None:
    """The target of each row, -1 where it does not count; None if it is no cross-entropy.

    A constant beside (smoothing) and another factor (a term of the logits' size) are allowed.

    >>> rows = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    >>> loss = torch.nn.functional.cross_entropy(rows, torch.tensor([3, 0, 8, 1]))
    >>> softmax_targets(rows.detach(), torch.autograd.grad(loss, rows)[0]).tolist()
    [3, 0, 8, 1]
    """
    active = _active(rows, gradient)
    if active is None:
        return None
    p, g = torch.softmax(rows[active], -1), gradient[active]
    # The target has the lowest gradient; up the slope, the highest; a smoothed one may have neither
    # where it is likely already.
    candidates = torch.stack([g.argmin(-1), g.argmax(-1), p.argmax(-1)])
    shares, slopes, pulls = zip(*(_fit(p, g, one) for one in candidates), strict=True)
    best = torch.stack(shares).argmin(0, keepdim=True)
    found = candidates.gather(0, best)[0]
    share, slope, pull = (torch.stack(each).gather(0, best)[0] for each in (shares, slopes, pulls))
    # Other losses have a line without a target, or a target without a line.
    sizes = g.norm(dim=-1)
    stands_out = pull.abs() > MIN_PULL * sizes
    is_line = slope * pull > 0
    return _spread_out(active, found, torch.where(stands_out & is_line, share, torch.inf))


def _fit(p: Tensor, g: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A line through gradients over probabilities, but for the target's.

    How far the others are from it as a share, its slope, and how far the target is below it.
    """
    others = torch.ones_like(g, dtype=torch.bool).scatter_(-1, target.unsqueeze(-1), False)
    count = others.sum(-1, keepdim=True)
    mean_p = (p * others).sum(-1, keepdim=True) / count
    mean_g = (g * others).sum(-1, keepdim=True) / count
    spread = (p - mean_p) * others
    variance = spread.square().sum(-1, keepdim=True)
    # Where all are equally likely, as at the start of many runs, the line goes through 0.
    flat = variance <= MIN_VARIANCE * mean_p.square()
    slope = (spread * (g - mean_g)).sum(-1, keepdim=True) / variance.clamp(min=1e-300)
    slope = torch.where(flat, mean_g / mean_p, slope)
    line = mean_g + slope * (p - mean_p)
    share = ((g - line) * others).norm(dim=-1) / g.norm(dim=-1)
    pull = (line - g).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    return share, slope.squeeze(-1), pull


def binary_targets(rows: Tensor, gradient: Tensor) -> Tensor | None:
    """The same where each class has a loss of its own: the class whose answer is yes.

    -1 where that is none or more than one. None where most rows have several: then a row has no
    target, but a set of them.
    """
    active = _active(rows, gradient)
    if active is None:
        return None
    probability, g = torch.sigmoid(rows[active]), gradient[active]
    yes = g < 0
    weight = g / (probability - yes.double())
    middle = weight.median(-1, keepdim=True).values
    shares = (weight - middle).abs().amax(-1) / middle.abs().squeeze(-1).clamp(min=1e-300)
    answers = yes.sum(-1)
    if float((answers > 1).double().mean()) > MAX_SETS:
        return None
    found = torch.where(answers == 1, yes.double().argmax(-1), -1)
    return _spread_out(active, found, shares)


def _active(rows: Tensor, gradient: Tensor) -> Tensor | None:
    """The rows that have a gradient; None if there is none, or one that is no number."""
    if not bool(torch.isfinite(rows).all()) or not bool(torch.isfinite(gradient).all()):
        return None
    sizes = gradient.norm(dim=-1)
    largest = float(sizes.max()) if len(sizes) else 0.0
    return sizes > MIN_WEIGHT * largest if largest > 0 else None


def _spread_out(active: Tensor, found: Tensor, shares: Tensor) -> Tensor | None:
    if float((shares <= MAX_MISFIT).double().mean()) < MIN_FITTING:
        return None
    targets = torch.full((len(active),), -1, dtype=torch.long)
    targets[active] = found.long()
    return targets


def _candidates(tape: Tape, run: Backward) -> Iterator[tuple[int, int]]:
    """Tensors that may be logits, the last ones first, each with the operation after its maker."""
    roots = [root for root in run.roots if root is not None]
    operations = tape.needed_for(roots, run.at)
    makers = tape.makers()
    found: dict[int, None] = {}
    for operation in reversed(operations):
        if operation.name in _LOSSES:
            found.setdefault(operation.inputs[0])
    for number in _last_weighted(tape, operations):
        found.setdefault(number)
    tried = 0
    for number in found:
        layout = tape.layouts[number]
        maker = makers.get(number)
        if maker is None or not layout.dtype.is_floating_point or math.prod(layout.shape) < 2:
            continue
        yield number, maker.number + 1
        tried += 1
        if tried == MAX_TRIED:
            return


def _last_weighted(tape: Tape, operations: list[Operation]) -> list[int]:
    """What the last operations with weights in them make, the last first."""
    weights = set(tape.parameters)
    made: list[int] = []
    for operation in operations:
        if operation.name in MOVES and all(i in weights for i in operation.inputs):
            weights.update(o for o in operation.outputs if o is not None)
        elif any(i in weights for i in operation.inputs) and operation.outputs[0] is not None:
            made.append(operation.outputs[0])
    return made[::-1][:MAX_TRIED]
