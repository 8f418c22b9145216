"""Which loss of a step is the language model's, and the roles in it."""

from __future__ import annotations

from lossleuth.tape.op_schemas import MOVES
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.alignment import alignment
from lossleuth.tape.roles.find_teacher import find_lessons
from lossleuth.tape.roles.picks import PICKS
from lossleuth.tape.roles.roles import Roles, find_roles, roles_of
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Backward, Window

# Losses of one step that are examined, the last ones. Picked by hand.
MAX_LOSSES = 8


def supervised_roles(window: Window, pick: int | None = None, run: Backward | None = None) -> Roles:
    """The roles in the step's loss; CannotReplay if logits or targets are missing.

    `pick` says which loss of the step is meant, where it is not read yet; `run` says which of
    several backward passes, each of which has a loss of its own.
    """
    if run is not None and len(window.backwards) > 1:
        own = roles_of(window.tape, run)
        if _is_complete(own):
            return own
    roles = best_roles(window, pick)
    if roles is not None and not roles.has_targets and find_lessons(window, roles):
        # A student without labels has no targets and still predicts the next token.
        return roles
    if roles is None or not _is_complete(roles):
        raise CannotReplay("no logits and targets were found")
    return roles


def best_roles(window: Window, pick: int | None = None) -> Roles | None:
    """The roles in the loss that the user's code reads, else in what is differentiated.

    `pick` says which loss of the step that is, where it is not read yet.
    """
    return window.once(("best_roles", pick), lambda: _best_roles(window, pick))


def _best_roles(window: Window, pick: int | None) -> Roles | None:
    tape, found = window.tape, find_roles(window)
    picks = [op for op in tape.operations if op.name in PICKS]
    wanted = losses_read(window) if pick is None else [pick]
    if not wanted:
        followed = _followed(window)
        wanted = [i for i, op in enumerate(picks) if op.number in followed][-MAX_LOSSES:]
    read = [_roles_at(tape, picks[i]) for i in wanted if i < len(picks)]
    read = [roles for roles in read if _is_complete(roles)]
    if found is not None and found.more and _is_complete(found):
        # A loss that is taken in several parts, each of which is a pick.
        return found
    # Multi-token heads come along with one for the next token.
    for roles in read if len(read) > 1 else ():
        if alignment(window, roles).offset == 1:
            return roles
    if read:
        return read[-1]
    if found is not None and _is_complete(found):
        return found
    # Programs often read their loss after the update: take any loss that was computed.
    for operation in reversed(picks):
        other = _roles_at(tape, operation)
        if _is_complete(other):
            return other
    return found


def heads(window: Window) -> list[Roles]:
    """The roles of each loss that is differentiated; none where they are parts of one."""
    found = find_roles(window)
    if found is None or found.more:
        return []
    tape, followed = window.tape, _followed(window)
    picks = [op for op in tape.operations if op.name in PICKS and op.number in followed]
    every = [_roles_at(tape, pick) for pick in picks[-MAX_LOSSES:]] if len(picks) > 1 else []
    return [roles for roles in every if _is_complete(roles) and roles.tokens is not None]


def loss_read(window: Window) -> int | None:
    """Which of the step's losses the user's code reads, counted from 0; None if none is."""
    read = losses_read(window)
    return read[-1] if read else None


def losses_read(window: Window) -> list[int]:
    """The losses that the user's code reads; those that are differentiated as well, if any are."""
    tape = window.tape
    picks = [op.number for op in tape.operations if op.name in PICKS]
    followed = _followed(window)
    read: dict[int, None] = {}
    for scalar in tape.reads:
        if scalar.by_user and tape.layouts[scalar.tensor].dtype.is_floating_point:
            needed = {op.number for op in tape.needed_for([scalar.tensor], scalar.at)}
            read |= dict.fromkeys(number for number in picks if number in needed)
    both = [number for number in read if number in followed]
    if not both and followed:
        # What is read may be an evaluation's, on other batches and without a graph.
        both = [number for number in read if has_graph(tape, tape.operations[number])]
        read = dict.fromkeys(both)
    return [picks.index(number) for number in sorted(both or read)][-MAX_LOSSES:]


def has_graph(tape: Tape, pick: Operation) -> bool:
    """Whether a loss depends on anything with a gradient, other than weights themselves.

    Under autocast, cast weights ask for gradients even where nothing else may.
    """
    made = pick.outputs[0]
    operations = [] if made is None else tape.needed_for([made], pick.number + 1)
    weights = set(tape.leaves)
    for operation in operations:
        if operation.name in MOVES and all(i in weights for i in operation.inputs):
            weights.update(o for o in operation.outputs if o is not None)
        elif any(
            needs_grad and i not in weights
            for i, needs_grad in zip(operation.inputs, operation.requires_grad, strict=True)
        ):
            return True
    return False


def _followed(window: Window) -> set[int]:
    """The operations that lead to what is differentiated."""
    roots = [r for run in window.backwards for r in run.roots if r is not None]
    return {op.number for op in window.tape.needed_for(roots)} if roots else set()


def _roles_at(tape: Tape, pick: Operation) -> Roles:
    made = pick.outputs[0]
    return roles_of(tape, Backward(pick.number + 1, [made], [None], {}))


def _is_complete(roles: Roles) -> bool:
    return roles.has_targets and roles.scores is not None
