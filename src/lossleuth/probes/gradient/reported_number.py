"""Is the number that the program reports the loss that it differentiates?

Scalars that the user's own code reads are what the user sees. For each that depends on the
parameters, its gradient is compared with that of the differentiated loss: a cosine near 1 means
that following one is following the other.
"""

from __future__ import annotations

import math
from contextlib import suppress

import torch
from torch import Tensor

from lossleuth.findings.gradient import ReportedNumber
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.gradients import opened_gradients
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.walk_back import origin
from lossleuth.tape.window import Backward, Gradients, Window, dense

# Operations that a number goes through without changing.
KEEPS_VALUE = ("detach", "alias", "clone", "view", "_to_copy", "squeeze", "reshape")
# Numbers that the user reads, and backward passes, that are compared in one step: each pair costs
# a replay. Picked by hand.
MAX_READS = 8
MAX_BACKWARDS = 4


def reported_numbers(window: Window) -> list[ReportedNumber]:
    """The scalars that the user's code read in the window, each once.

    Of several backward passes, a number is compared with the one that it is nearest to.
    """
    tape = window.tape
    found: list[ReportedNumber] = []
    seen: set[int] = set()
    followed: list[Tensor] = []
    for run in window.backwards[:MAX_BACKWARDS]:
        with suppress(CannotReplay):
            followed.append(_flat(tape, run, opened_gradients(window, run)))
    if not followed:
        return []
    followed_from = {root for run in window.backwards for root in run.roots}
    makers = tape.makers()
    last = window.backwards[-1]
    for read in tape.reads:
        if not read.by_user or read.tensor in seen or len(found) >= MAX_READS:
            continue
        if not tape.layouts[read.tensor].dtype.is_floating_point:
            continue
        seen.add(read.tensor)
        # Computed without gradients: an evaluation.
        if not _has_graph(tape, read.tensor, read.at):
            continue
        place = None if read.place is None else str(read.place)
        value = float(read.value) if isinstance(read.value, int | float) else None
        if _moved_from(makers, read.tensor) in followed_from:
            found.append(ReportedNumber(place, 1.0, value))
            continue
        try:
            own = _gradient(tape, last, [read.tensor], read.at)
        except CannotReplay as reason:
            if _depends(tape, read.tensor, read.at):
                found.append(ReportedNumber(place, None, value, untested=str(reason)))
            continue
        cosines = [_cosine(own, other) for other in followed if len(other) == len(own)]
        if cosines and float(own.norm()):
            found.append(ReportedNumber(place, max(cosines), value))
    return found


def _cosine(own: Tensor, other: Tensor) -> float:
    product = float(own.norm()) * float(other.norm())
    return float(own @ other) / product if product else 0.0


def _gradient(tape: Tape, run: Backward, wanted: list[int], before: int) -> Tensor:
    """The gradient of some scalars for all parameters, as one vector in float64."""
    replay = Replay(tape, cuts=Cuts.OPENED)
    leaves = {i: replay.leaf(tape.value(i)) for i in run.before}
    made = replay.run(wanted, before=before, leaves=leaves)
    total = [made[i].sum() for i in wanted if made[i].requires_grad]
    if not total:
        raise CannotReplay("the number does not depend on the parameters")
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return _flat(tape, run, dict(zip(leaves, found, strict=True)))


def _flat(tape: Tape, run: Backward, gradients: Gradients) -> Tensor:
    """All parameters' gradients as one vector."""
    parts = [
        torch.zeros(math.prod(tape.layouts[i].shape), dtype=torch.float64)
        if (gradient := gradients.get(i)) is None
        else dense(gradient).reshape(-1)
        for i in run.before
    ]
    return torch.cat(parts)


def _moved_from(makers: dict[int, Operation], number: int) -> int:
    """Back through movement: the same number under another name."""

    def source(moved: int) -> int | None:
        maker = makers.get(moved)
        return maker.inputs[0] if maker and maker.name in KEEPS_VALUE and maker.inputs else None

    return origin(number, source)


def _has_graph(tape: Tape, number: int, before: int) -> bool:
    """Whether any result on the way, views of leaves apart, was part of a graph."""
    return any(
        needs_grad and tape.groups[i] not in tape.leaves
        for operation in tape.needed_for([number], before)
        for i, needs_grad in zip(operation.inputs, operation.requires_grad, strict=True)
    )


def _depends(tape: Tape, number: int, before: int) -> bool:
    parameters = tape.parameters
    operations = tape.needed_for([number], before)
    return any(i in parameters for operation in operations for i in operation.inputs)


PROBE = Probe(ReportedNumber, lambda a: reported_numbers(a.window))
