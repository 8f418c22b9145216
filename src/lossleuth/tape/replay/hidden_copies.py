"""Tensors that were copied outside torch: through numpy, a file, raw memory.

A leaf that appears in the middle of a step with the very values of something computed before is
that thing. Once linked, what depends on what is known again, and where gradients end is a line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import Operation, Tape

# Fewer numbers than these may agree by chance. Picked by hand.
MIN_ELEMENTS_COMPARED = 8
# Results that are compared with a leaf element by element, the latest first: each costs a replay.
# Picked by hand.
MAX_RESULTS_COMPARED = 8
# Operations that leave nothing of what was there.
CLEARS = frozenset(("zero_", "fill_", "_foreach_zero_"))
# Distance of a copy from its source, as a share of their norm. Float32 rounds by 6e-8: room for a
# change of type in between.
MAX_RELATIVE_DISTANCE = 1e-5


def link_copies(tape: Tape, gradients: Iterable[Tensor] = ()) -> None:
    """Find such leaves and note what each is a copy of. Each leaf is examined once.

    A leaf that is one of the `gradients` that backward passes have left is no copy.
    """
    first_use = _first_uses(tape)
    uses = {
        number: use
        for number in (*tape.leaves, *tape.opaque)
        if number not in tape.compared
        and _may_be_copy(tape, number)
        and (use := tape.opaque.get(number, first_use.get(number))) is not None
    }
    tape.compared.update(uses)
    values = {number: value for number in uses if (value := _value(tape, number)) is not None}
    if values:
        known = _by_size(gradients)
        values = {
            number: value
            for number, value in values.items()
            if not any(_is_same(value, gradient) for gradient in known.get(value.numel(), ()))
        }
    sizes = {value.numel() for value in values.values()}
    fed = tape.fed_by_parameters(tape.operations)
    marks = _marks(tape, fed, sizes, max(uses.values(), default=0)) if values else []
    for number, value in values.items():
        source = _source(tape, number, value, uses[number], marks)
        if source is not None:
            tape.link_copy(number, source)


def _may_be_copy(tape: Tape, number: int) -> bool:
    leaf, layout = tape.leaves.get(number), tape.layouts[number]
    whole = not layout.dtype.is_floating_point
    trained = leaf is not None and leaf.requires_grad
    return not (trained or whole or math.prod(layout.shape) < MIN_ELEMENTS_COMPARED)


def _value(tape: Tape, leaf: int) -> Tensor | None:
    """The values of a leaf; None if they are all alike or not finite."""
    held = tape.snapshots[leaf] if leaf in tape.opaque else tape.value(leaf)
    value = held.detach().double().reshape(-1)
    size = float(value.norm())
    return value if size and math.isfinite(size) and float(value.std()) else None


def _by_size(tensors: Iterable[Tensor]) -> dict[int, list[Tensor]]:
    found: dict[int, list[Tensor]] = {}
    for tensor in tensors:
        if not tensor.is_sparse:
            found.setdefault(tensor.numel(), []).append(tensor)
    return found


def _is_same(value: Tensor, gradient: Tensor) -> bool:
    flat = gradient.reshape(-1)
    # The first number nearly always tells.
    return float(flat[0]) == float(value[0]) and bool((flat == value).all())


class _Mark(NamedTuple):
    """A summary of a result: enough to see that it differs from a leaf."""

    operation: int
    number: int
    elements: int
    size: float
    along: float


def _marks(tape: Tape, fed: set[int], sizes: set[int], before: int) -> list[_Mark]:
    """Summaries of all results of these sizes that depend on parameters."""
    found: list[_Mark] = []

    def each(operation: Operation, _args: Any, result: Any, _as_recorded: Any) -> None:
        results = result if isinstance(result, list | tuple) else (result,)
        for number, value in zip(operation.outputs, results, strict=False):
            known = number is not None and number in fed and isinstance(value, Tensor)
            if known and value.numel() in sizes and value.is_floating_point():
                assert number is not None
                found.append(_Mark(operation.number, number, value.numel(), *_mark(value)))

    made = (o for op in tape.operations[:before] for o in op.outputs if o is not None)
    wanted = [o for o in made if o in fed and math.prod(tape.layouts[o].shape) in sizes]
    try:
        Replay(tape, float64=False, gradients=False).run(wanted, before=before, each=each)
    except CannotReplay:
        return []
    return found


def _mark(value: Tensor) -> tuple[float, float]:
    flat = value.detach().double().reshape(-1)
    return float(torch.linalg.vector_norm(flat)), float(flat @ _direction(flat.numel()))


@lru_cache(maxsize=1)
def _direction(length: int) -> Tensor:
    return torch.arange(length, dtype=torch.float64).cos()


def _source(tape: Tape, leaf: int, value: Tensor, use: int, marks: Sequence[_Mark]) -> int | None:
    size, along = _mark(value)
    near = MAX_RELATIVE_DISTANCE * size
    like = [
        m
        for m in marks
        if m.operation < use
        and m.elements == value.numel()
        and tape.groups[m.number] != tape.groups[leaf]
        and abs(m.size - size) <= near
        # The direction that both are seen along is as long as the root of half their elements.
        and abs(m.along - along) <= near * math.sqrt(value.numel())
    ]
    for mark in reversed(like[-MAX_RESULTS_COMPARED:]):
        try:
            replay = Replay(tape, float64=False, gradients=False)
            found = replay.run([mark.number], before=mark.operation + 1)[mark.number]
        except CannotReplay:
            continue
        if float((found.detach().double().reshape(-1) - value).norm()) <= near:
            return mark.number
    return None


def _first_uses(tape: Tape) -> dict[int, int]:
    """The first operation that uses each tensor; none where that only overwrites it."""
    found: dict[int, int | None] = {}
    for operation in tape.operations:
        for number in operation.inputs:
            if number not in found:
                cleared = operation.name in CLEARS and number in operation.written
                found[number] = None if cleared else operation.number
    return {number: at for number, at in found.items() if at is not None}
