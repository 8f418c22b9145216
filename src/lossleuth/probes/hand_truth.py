"""What a step without autograd is made of: parameters, numbers that may be the loss, gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.replay import Cuts, Replay
from lossleuth.tape.substitutes import CannotReplay
from lossleuth.tape.tape import Operation, Tape


@dataclass(frozen=True)
class HandParameter:
    """A tensor that the step overwrites, and tensors of its shape that its update is made of."""

    number: int
    # The operation that overwrites it first.
    at: int
    made_of: tuple[int, ...]


@dataclass(frozen=True)
class Truth:
    """A number, and its gradients."""

    loss: int
    value: float
    of: dict[int, Tensor]


def parameters_of(tape: Tape) -> list[HandParameter]:
    """Floating tensors of before that the step overwrites, having used them."""
    makers = tape.makers()
    used: set[int] = set()
    first: dict[int, Operation] = {}
    for operation in tape.operations:
        written = {tape.groups[i] for i in operation.written}
        for group in written:
            if group in tape.leaves and group not in first:
                first[group] = operation
        # Its own update uses it as well; that is no use.
        used |= {tape.groups[i] for i in operation.inputs} - set(first)
    found = []
    for group, operation in first.items():
        layout = tape.layouts[group]
        if layout.dtype.is_floating_point and group in used and math.prod(layout.shape) > 0:
            made_of = _made_of(tape, makers, group)
            if made_of:
                found.append(HandParameter(group, operation.number, made_of))
    return found


def _made_of(tape: Tape, makers: dict[int, Operation], group: int) -> tuple[int, ...]:
    """Tensors of a parameter's shape that its updates depend on, and that this step has made."""
    shape = tape.layouts[group].shape
    waiting = [
        i
        for operation in tape.operations
        if group in {tape.groups[w] for w in operation.written}
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
    replay = Replay(tape, wide=True, gradients=False)
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
    replay = Replay(tape, wide=True, cuts=Cuts.OPENED)
    values = at or {i: tape.value(i).detach() for i in parameters}
    with torch.inference_mode(mode=False):
        leaves = {i: v.double().clone().requires_grad_() for i, v in values.items()}
    end = tape.makers()[loss].number + 1
    made = replay.run([loss], before=end, leaves=leaves, kept=between)
    if not made[loss].requires_grad:
        raise CannotReplay("it does not depend on what is updated")
    wanted = leaves | {i: made[i] for i in between if i in made and made[i].requires_grad}
    total = made[loss].sum()
    gradients = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    pairs = zip(wanted, gradients, strict=True)
    return Truth(loss, float(total.detach()), {i: g.double() for i, g in pairs if g is not None})
