"""Tensors that are copies of others by a way that torch does not see: numpy, a file, raw memory.

A leaf that appears in the middle of a step with the very values of something computed before is
that thing. Once linked, what depends on what is known again, and where gradients end is a line.
"""

from __future__ import annotations

import math

from lossleuth.tape.replay import Replay
from lossleuth.tape.substitutes import CannotReplay
from lossleuth.tape.tape import Tape

FEWEST_ELEMENTS = 8
# Results that are compared with a leaf, those made last first.
MOST_COMPARED = 48
# Distance of two copies, as a share of their norm: a change of type in between is allowed.
SAME = 1e-5


def link_copies(tape: Tape) -> None:
    """Find such leaves and note what each is a copy of; each is looked at once."""
    first_use = _first_uses(tape)
    fed = tape.fed_by_parameters(tape.operations)
    for number in (*tape.leaves, *tape.opaque):
        if number in tape.compared or not _may_be_copy(tape, number):
            continue
        tape.compared.add(number)
        use = tape.opaque.get(number, first_use.get(number))
        source = None if use is None else _source(tape, number, use, fed)
        if source is not None:
            tape.copies[number] = source


def _may_be_copy(tape: Tape, number: int) -> bool:
    leaf, layout = tape.leaves.get(number), tape.layouts[number]
    whole = not layout.dtype.is_floating_point
    trained = leaf is not None and leaf.requires_grad
    return not (trained or whole or math.prod(layout.shape) < FEWEST_ELEMENTS)


def _source(tape: Tape, leaf: int, use: int, fed: set[int]) -> int | None:
    held = tape.snapshots[leaf] if leaf in tape.opaque else tape.value(leaf)
    value = held.detach().double().reshape(-1)
    size = float(value.norm())
    if not size or not math.isfinite(size) or not float(value.std()):
        return None
    groups = tape.groups
    made = [
        o
        for operation in tape.operations[:use]
        for o in operation.outputs
        if o is not None
        and o in fed
        and groups[o] != groups[leaf]
        and math.prod(tape.layouts[o].shape) == value.numel()
        and tape.layouts[o].dtype.is_floating_point
    ]
    wanted = list(dict.fromkeys(reversed(made)))[:MOST_COMPARED]
    if not wanted:
        return None
    try:
        found = Replay(tape, wide=False, gradients=False).run(wanted, before=use)
    except CannotReplay:
        return None
    for number in wanted:
        other = found[number].detach().double().reshape(-1)
        if float((other - value).norm()) <= SAME * size:
            return number
    return None


def _first_uses(tape: Tape) -> dict[int, int]:
    found: dict[int, int] = {}
    for operation in tape.operations:
        for number in operation.inputs:
            found.setdefault(number, operation.number)
    return found
