"""What a step without autograd is made of: parameters, numbers that may be the loss, gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.tape import Operation, Tape


@dataclass(frozen=True)
class HandParameter:
    """A tensor that the step overwrites, and tensors of its shape that its update is made of."""

    number: int
    # The operation that overwrites it first.
    at: int
    made_of: tuple[int, ...]
    # What holds its value after the step: itself, or another in its place.
    after: int


@dataclass(frozen=True)
class Truth:
    """A number, and its gradients."""

    loss: int
    value: float
    of: dict[int, Tensor]


def parameters_of(tape: Tape) -> list[HandParameter]:
    """Floating tensors of before that the step overwrites or replaces, having used them."""
    makers = tape.makers()
    written = _overwritten(tape) or _replaced(tape)
    found = []
    for number, (operation, after) in written.items():
        layout = tape.layouts[number]
        if layout.dtype.is_floating_point and math.prod(layout.shape) > 0:
            made_of = _made_of(tape, makers, number, after)
            if made_of:
                found.append(HandParameter(number, operation.number, made_of, after))
    return found


def _overwritten(tape: Tape) -> dict[int, tuple[Operation, int]]:
    """Leaves that were used and then written to, with the first operation that does so."""
    used: set[int] = set()
    first: dict[int, tuple[Operation, int]] = {}
    sound: dict[int, tuple[Operation, int]] = {}
    for operation in tape.operations:
        for group in {tape.groups[i] for i in operation.written}:
            if group in tape.leaves and group not in first:
                first[group] = (operation, group)
                if group in used:
                    sound[group] = first[group]
        # Its own update uses it as well; that is no use.
        used |= {tape.groups[i] for i in operation.inputs} - set(first)
    return sound


def _replaced(tape: Tape) -> dict[int, tuple[Operation, int]]:
    """Leaves that something of their shape was made of in the end, which nothing else uses.

    `weight = weight - rate * gradient` leaves a new tensor for the next step.
    """
    uses: dict[int, int] = {}
    for operation in tape.operations:
        for number in operation.inputs:
            uses[number] = uses.get(number, 0) + 1
    found: dict[int, tuple[Operation, int]] = {}
    for operation in tape.operations:
        made = operation.outputs[0] if len(operation.outputs) == 1 else None
        if made is None or uses.get(made) or not tape.layouts[made].shape:
            continue
        for number in operation.inputs:
            same = tape.layouts[number].shape == tape.layouts[made].shape
            # Once here, and at least once before.
            if number in tape.leaves and same and uses[number] > 1:
                found[number] = (operation, made)
    return found


def _made_of(tape: Tape, makers: dict[int, Operation], number: int, after: int) -> tuple[int, ...]:
    """Tensors of a parameter's shape that its updates depend on, and that this step has made."""
    shape, group = tape.layouts[number].shape, tape.groups[number]
    waiting = [
        i
        for operation in tape.operations
        if after in operation.outputs or group in {tape.groups[w] for w in operation.written}
        for i in operation.inputs
    ]
    seen: set[int] = set()
    found: dict[int, None] = {}
    writers = _writers(tape)
    while waiting:
        number = waiting.pop()
        if number in seen or tape.groups[number] == group:
            continue
        seen.add(number)
        if tape.layouts[number].shape == shape:
            found.setdefault(number)
        for operation in (makers.get(number), *writers.get(tape.groups[number], ())):
            if operation is not None:
                waiting.extend(operation.inputs)
    return tuple(found)


def _writers(tape: Tape) -> dict[int, list[Operation]]:
    found: dict[int, list[Operation]] = {}
    for operation in tape.operations:
        for group in {tape.groups[i] for i in operation.written}:
            found.setdefault(group, []).append(operation)
    return found


def scalars_of(tape: Tape, parameters: Sequence[HandParameter]) -> list[int]:
    """Single numbers that depend on parameters as they were, the likeliest loss first.

    That is one that depends on many, that nothing else is made of, and that was read.
    """
    depends: dict[int, set[int]] = {p.number: {p.number} for p in parameters}
    begins = {p.number: p.at for p in parameters}
    found: dict[int, int] = {}
    used: set[int] = set()
    for operation in tape.operations:
        above = set[int]().union(*(depends.get(tape.groups[i], set()) for i in operation.inputs))
        above |= set[int]().union(*(depends.get(i, set()) for i in operation.inputs))
        used |= set(operation.inputs)
        for number in (*operation.outputs, *operation.written):
            if number is None or not above:
                continue
            depends.setdefault(number, set()).update(above)
            depends.setdefault(tape.groups[number], set()).update(above)
            layout = tape.layouts[number]
            alone = math.prod(layout.shape) == 1 and layout.dtype.is_floating_point
            if alone and operation.number < min(begins[p] for p in above):
                found[number] = operation.number
    read = {r.tensor for r in tape.reads}

    def likelihood(number: int) -> tuple[int, bool, bool, int]:
        return (len(depends[number]), number in read, number not in used, found[number])

    return sorted((i for i in found if i not in begins), key=likelihood, reverse=True)


def values_of(
    tape: Tape, numbers: Sequence[int], at: Mapping[int, Tensor] | None = None
) -> dict[int, Tensor]:
    """Tensors of the step in float64, also with its parameters somewhere else."""
    replay = Replay(tape, float64=True, gradients=False)
    made = replay.run(list(numbers), leaves=dict(at or {}))
    return {i: t.detach().double() for i, t in made.items() if t.is_floating_point()}


def gradient_of(
    tape: Tape,
    loss: int,
    parameters: Sequence[int],
    at: Mapping[int, Tensor] | None = None,
    between: Sequence[int] = (),
) -> Truth:
    """The true gradient of a number, for parameters and for tensors between them and it."""
    replay = Replay(tape, float64=True, cuts=Cuts.OPENED)
    values = at or {i: tape.value(i).detach() for i in parameters}
    with torch.inference_mode(mode=False):
        leaves = {i: v.double().clone().requires_grad_() for i, v in values.items()}
    end = tape.makers()[loss].number + 1
    made = replay.run([loss], before=end, leaves=leaves, kept=between)
    if not made[loss].requires_grad:
        raise CannotReplay("the number does not depend on any tensor that is updated")
    wanted = leaves | {i: made[i] for i in between if i in made and made[i].requires_grad}
    total = made[loss].sum()
    gradients = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    pairs = zip(wanted, gradients, strict=True)
    return Truth(loss, float(total.detach()), {i: g.double() for i, g in pairs if g is not None})
