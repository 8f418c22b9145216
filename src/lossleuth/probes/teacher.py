"""Who teaches whom: scores that get no gradient, compared with scores that do.

A teacher is found by what it is used for: its scores go, over the same classes, into the same loss
as those of the model that is trained, and nothing is trained through them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.replay import Replay
from lossleuth.tape.roles import MOVES, SOFTMAXES, Roles
from lossleuth.tape.substitutes import CannotReplay
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Window


@dataclass(frozen=True)
class Teacher:
    """A teacher's scores beside the student's, row by row as the loss has them."""

    # Where each is turned into probabilities, as file:line.
    teacher_at: str | None
    student_at: str | None
    classes: int
    rows: int
    # Whether the teacher's scores were made in the step, or came from outside.
    computed: bool
    # Mean divergence of the student from the teacher in nats, as the loss has them; None where
    # they are not row by row.
    divergence: float | None
    # Share of rows in which both have the same first choice.
    agreement: float | None
    # Mean entropy of the teacher in nats: 0 is no more than a label, ln(classes) teaches nothing.
    entropy: float | None


def teacher(window: Window, roles: Roles | None) -> Teacher | None:
    """The teacher of the step; None where there is none."""
    if roles is None or roles.scores is None or roles.vocabulary is None:
        return None
    tape, run = window.tape, roles.run
    roots = [root for root in run.roots if root is not None]
    operations = tape.needed_for(roots, run.at)
    softmaxes = [op for op in operations if _over(tape, op, roles.vocabulary)]
    taught = [op for op in softmaxes if op.live[0] or op.function is not None]
    teaching = [op for op in softmaxes if not op.live[0] and op.function is None]
    # Scores that the student's own were made from are no teacher's: its own, held fixed.
    origin = _origins(tape)
    own = {origin.get(op.inputs[0], op.inputs[0]) for op in taught}
    teaching = [op for op in teaching if origin.get(op.inputs[0], op.inputs[0]) not in own]
    if not taught or not teaching:
        return None
    theirs = teaching[-1]
    shape = tape.layouts[theirs.inputs[0]].shape
    ours = next((op for op in taught if tape.layouts[op.inputs[0]].shape == shape), taught[-1])
    rows = 1
    for size in shape:
        rows *= size
    computed = origin.get(theirs.inputs[0], theirs.inputs[0]) not in tape.leaves
    numbers = _compared(tape, ours, theirs, run.at)
    place, own_place = theirs.place, ours.place
    return Teacher(
        None if place is None else str(place),
        None if own_place is None else str(own_place),
        roles.vocabulary,
        rows // roles.vocabulary,
        computed,
        *numbers,
    )


def _over(tape: Tape, operation: Operation, classes: int) -> bool:
    if operation.name not in SOFTMAXES:
        return False
    shape = tape.layouts[operation.inputs[0]].shape
    axis = operation.args[1] if len(operation.args) > 1 else -1
    axis = axis[0] if isinstance(axis, list | tuple) else axis
    return bool(shape) and shape[axis] == classes


def _origins(tape: Tape) -> dict[int, int]:
    """What each tensor is but another view, scale or copy of."""
    found: dict[int, int] = {}
    for operation in tape.operations:
        scales = operation.name in ("div", "mul", "sub", "add") and len(operation.inputs) == 1
        if operation.inputs and (operation.name in MOVES or scales):
            first = operation.inputs[0]
            for made in operation.outputs:
                if made is not None:
                    found[made] = found.get(first, first)
    return found


def _compared(
    tape: Tape, ours: Operation, theirs: Operation, before: int
) -> tuple[float | None, float | None, float | None]:
    """Divergence, agreement and the teacher's entropy, from the scores of both."""
    replay = Replay(tape, gradients=False)
    try:
        student = replay.run([ours.inputs[0]], before=ours.number)[ours.inputs[0]]
        master = replay.run([theirs.inputs[0]], before=theirs.number)[theirs.inputs[0]]
    except CannotReplay:
        return None, None, None
    told = _log_probabilities(master, theirs)
    # A class that was ruled out has no part in either sum.
    share = told.exp()
    entropy = float(-torch.where(share > 0, share * told, 0.0).sum(-1).mean())
    if student.shape != master.shape:
        return None, None, entropy
    said = _log_probabilities(student, ours)
    divergence = float(torch.where(share > 0, share * (told - said), 0.0).sum(-1).mean())
    agreement = float((told.argmax(-1) == said.argmax(-1)).double().mean())
    return divergence, agreement, entropy


def _log_probabilities(scores: Tensor, operation: Operation) -> Tensor:
    axis = operation.args[1] if len(operation.args) > 1 else -1
    axis = axis[0] if isinstance(axis, list | tuple) else axis
    return torch.log_softmax(scores.detach().double().movedim(axis, -1), -1)
