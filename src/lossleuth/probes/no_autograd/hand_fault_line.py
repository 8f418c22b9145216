"""The line where a hand-written backward pass goes wrong.

Gradients of intermediate results are worked out on the way to those of parameters. As long as they
equal true ones, everything before them is right; the first operation on such a right gradient whose
result is none is where it went wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from lossleuth.probes.no_autograd.hand_parts import Truth, gradient_of, values_of
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.walk_back import origin

# Elements of intermediate results that are compared: 128 MB in float64. Picked by hand.
MAX_ELEMENTS = 1 << 24


def fault_place(tape: Tape, truth: Truth, wrong: Sequence[int], tolerance: float) -> str | None:
    """File and line of the operation after which the gradients `wrong` are wrong."""
    makers = tape.makers()
    end = makers[truth.loss].number
    between = _between(tape, truth)
    try:
        true = gradient_of(tape, truth.loss, list(truth.of), between=between).of
    except (CannotReplay, RuntimeError):
        true = truth.of
    late = [op for op in tape.operations if op.number > end]
    right = _right(tape, late, true, tolerance)
    if all(number in right for number in wrong):
        # The right direction in a wrong scale: whatever made it gave it that.
        made = makers[_origin(tape, makers, wrong[0], right)]
        return None if made.place is None else str(made.place)
    regions = [_unlike_any(tape, late, number, right) for number in wrong]
    # What all wrong gradients come from is where they went wrong together, if they did.
    common = set.intersection(*({op.number for op in region} for region in regions))
    together = [op for op in regions[0] if op.number in common]
    for region in (together, *regions):
        after = [op for op in region if any(right.get(i, op.number) < op.number for i in op.inputs)]
        if after:
            return None if after[0].place is None else str(after[0].place)
    first = next(iter(together or regions[0]), None)
    return None if first is None or first.place is None else str(first.place)


def _origin(tape: Tape, makers: dict[int, Operation], number: int, right: dict[int, int]) -> int:
    """Go back through scaling to the first tensor of this direction."""

    def scaled_from(scaled: int) -> int | None:
        shape = tape.layouts[scaled].shape
        before = [i for i in makers[scaled].inputs if tape.layouts[i].shape == shape]
        return next((i for i in before if i in right and i in makers and i != scaled), None)

    return origin(number, scaled_from)


def _right(
    tape: Tape,
    operations: Sequence[Operation],
    true: dict[int, Tensor],
    tolerance: float,
) -> dict[int, int]:
    """What these operations make that has the direction of a true gradient, and since when."""
    since: dict[int, int] = {}
    for operation in operations:
        changed = {tape.groups[i] for i in operation.written}
        made = {i for i in operation.outputs if i is not None}
        for number in (*made, *(i for i in since if tape.groups[i] in changed)):
            since[number] = operation.number
    if not since:
        return {}
    values = values_of(tape, list(since))
    return {
        i: since[i]
        for i, value in values.items()
        if any(_is_parallel(value, t, tolerance) for t in true.values())
    }


def _unlike_any(
    tape: Tape, operations: Sequence[Operation], number: int, right: dict[int, int]
) -> list[Operation]:
    """The operations behind a wrong gradient, back to what is still right."""
    wanted, groups = {number}, {tape.groups[number]}
    found = []
    for operation in reversed(operations):
        makes = any(i in wanted for i in operation.outputs)
        if makes or any(tape.groups[i] in groups for i in operation.written):
            found.append(operation)
            unlike = [
                i for i in operation.inputs if right.get(i, operation.number) >= operation.number
            ]
            wanted.update(unlike)
            groups.update(tape.groups[i] for i in unlike)
    return found[::-1]


def _between(tape: Tape, truth: Truth) -> list[int]:
    """Intermediate results on the way from parameters to the loss, as far as they fit."""
    found: dict[int, None] = {}
    room = MAX_ELEMENTS
    end = tape.makers()[truth.loss].number + 1
    for operation in reversed(tape.needed_for([truth.loss], end)):
        for number in operation.outputs:
            if number is None or not tape.layouts[number].dtype.is_floating_point:
                continue
            room -= math.prod(tape.layouts[number].shape)
            if room > 0:
                found.setdefault(number)
    return list(found)


def _is_parallel(one: Tensor, other: Tensor, tolerance: float) -> bool:
    if one.numel() != other.numel() or one.numel() < 2:
        return False
    shaped = one if one.shape == other.shape else one.reshape(other.shape)
    size, whole = float(shaped.norm()), float(other.norm())
    if not size or not whole:
        return False
    factor = float((shaped * other).sum()) / whole**2
    return float((shaped - factor * other).norm()) <= tolerance * size
