"""Targets that are shares of classes, and a softmax that was taken over another axis than theirs.

One-hot rows and a teacher's shares are multiplied with log-probabilities. Both have to sum to 1
along the same axis: that of the classes.
"""

from __future__ import annotations

from torch import Tensor

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import Operation, Tape

# How far a sum of shares may be from 1. Picked by hand: above what half precision rounds.
MAX_DISTANCE_FROM_ONE = 0.01
# Of the sums that are not 0, as those of masked rows are, so many have to be 1. Picked by hand.
MIN_SHARE_OF_ONES = 0.99
# Classes that stand once in a text make sums of 1 along it too: at most so large a part of those
# along the classes. Picked by hand.
MAX_OF_OTHER = 0.5
# Elements of the largest targets that are examined.
MAX_ELEMENTS = 1 << 24


def softmax_across_targets(tape: Tape) -> tuple[str | None, float | None]:
    """The line of a log-softmax whose targets sum to 1 along another axis; (None, None) if none.

    And the share of their sums along its own axis that are 1.
    """
    for product, softmax, targets, axis in _weighed(tape):
        shares = _value(tape, targets, product.number)
        if shares is not None and _sums_elsewhere(shares, axis):
            place = "" if softmax.place is None else str(softmax.place)
            return place, _share_of_ones(shares.sum(axis))
    return None, None


def _weighed(tape: Tape) -> list[tuple[Operation, Operation, int, int]]:
    """Products of log-probabilities with as many numbers: both, and the softmax's axis."""
    makers = tape.makers()
    found = []
    for product in tape.operations:
        if product.name not in ("mul", "mul_") or len(product.inputs) != 2:
            continue
        for given, targets in (product.inputs, product.inputs[::-1]):
            shape = tape.layouts[given].shape
            if tape.layouts[targets].shape != shape or len(shape) < 2:
                continue
            softmax = _log_softmax(tape, makers, given)
            if softmax is not None and _log_softmax(tape, makers, targets) is None:
                found.append((product, softmax[0], targets, softmax[1] % len(shape)))
    return found


def _log_softmax(
    tape: Tape, makers: dict[int, Operation], number: int
) -> tuple[Operation, int] | None:
    """What made log-probabilities, and over which axis; None if they are none."""
    maker = makers.get(number)
    if maker is not None and maker.name == "neg":
        maker = makers.get(maker.inputs[0])
    if maker is None or not maker.inputs:
        return None
    if maker.name in ("_log_softmax", "log_softmax"):
        return maker, int(maker.args[1])
    before = makers.get(maker.inputs[-1])
    if maker.name == "log" and before is not None and before.name in ("_softmax", "softmax"):
        return before, int(before.args[1])
    if maker.name == "sub" and len(maker.inputs) == 2 and before is not None:
        axis = _normalised_over(makers, before, maker.inputs[0])
        return None if axis is None else (before, axis)
    return None


def _normalised_over(makers: dict[int, Operation], made: Operation, scores: int) -> int | None:
    """The axis of a logarithm of summed exponentials of these scores."""
    if made.name == "logsumexp" and made.inputs[0] == scores:
        return _only(made.args[1])
    if made.name != "log":
        return None
    total = makers.get(made.inputs[0])
    if total is None or total.name != "sum" or len(total.args) < 2:
        return None
    raised = makers.get(total.inputs[0])
    of_scores = raised is not None and raised.name == "exp" and raised.inputs[0] == scores
    return _only(total.args[1]) if of_scores else None


def _only(axes: object) -> int | None:
    if isinstance(axes, int):
        return axes
    return axes[0] if isinstance(axes, list | tuple) and len(axes) == 1 else None


def _value(tape: Tape, number: int, before: int) -> Tensor | None:
    """The targets as the program had them."""
    size = 1
    for length in tape.layouts[number].shape:
        size *= length
    if size > MAX_ELEMENTS or not tape.layouts[number].dtype.is_floating_point:
        return None
    try:
        return Replay(tape, gradients=False).run([number], before=before)[number].detach()
    except CannotReplay:
        return None


def _sums_elsewhere(shares: Tensor, axis: int) -> bool:
    """Whether shares sum to 1 along another axis than this one, and are shares of it."""
    if not shares.numel() or float(shares.min()) < 0:
        return False
    # Weights of whole rows, spread out over their classes, are the same along the softmax's axis.
    if bool((shares == shares.narrow(axis, 0, 1)).all()):
        return False
    along = _share_of_ones(shares.sum(axis))
    others = (shares.sum(other) for other in range(shares.dim()) if other != axis)
    return any(_are_shares(sums) and along < MAX_OF_OTHER * _share_of_ones(sums) for sums in others)


def _are_shares(sums: Tensor) -> bool:
    """Whether all are 1, but for those of masked rows."""
    there = sums[sums.abs() > MAX_DISTANCE_FROM_ONE]
    return bool(there.numel()) and _share_of_ones(there) >= MIN_SHARE_OF_ONES


def _share_of_ones(sums: Tensor) -> float:
    return float(((sums - 1).abs() <= MAX_DISTANCE_FROM_ONE).double().mean())
