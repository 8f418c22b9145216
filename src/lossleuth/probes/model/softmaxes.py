"""Are softmaxes taken of logits, and over the axis that is summed over?"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.findings.model import Softmaxes
from lossleuth.probes.model.attention_axes import crossed_weights
from lossleuth.probes.model.target_axes import softmax_across_targets
from lossleuth.probes.probe import Probe
from lossleuth.tape.op_schemas import MOVES
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.picks import PICKS
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.walk_back import origin, through_moves
from lossleuth.tape.window import Window


def softmaxes(window: Window, roles: Roles | None) -> Softmaxes:
    """Look at the loss's softmax, and at all whose results are multiplied with something."""
    tape = window.tape
    crossed = tuple(crossed_weights(window.tape, roles))
    across, in_place = softmax_across_targets(tape)
    if roles is None or roles.scores is None or roles.scores_at is None:
        none = "no softmax of a loss was found"
        return Softmaxes(
            None,
            None,
            None,
            crossed,
            across_targets=across,
            targets_in_place=in_place,
            untested=none,
        )
    operation = tape.operations[roles.scores_at]
    place = None if operation.place is None else str(operation.place)
    try:
        made = Replay(tape, gradients=False).run([roles.scores], before=roles.scores_at)
    except CannotReplay as reason:
        return Softmaxes(
            None,
            None,
            place,
            crossed,
            across_targets=across,
            targets_in_place=in_place,
            untested=str(reason),
        )
    scores = made[roles.scores].detach()
    gap = None
    if scores.numel() and float(scores.min()) >= 0:
        gap = float((scores.sum(roles.class_axis) - 1).abs().max())
    elsewhere = _is_picked_elsewhere(tape, operation, roles.class_axis)
    inner = _inner_place(tape, roles.scores)
    return Softmaxes(
        probability_gap=gap,
        classes_in_place=_in_place(window, roles),
        place=place,
        crossed=crossed,
        picked_elsewhere=elsewhere,
        across_targets=across,
        targets_in_place=in_place,
        inner_place=inner,
    )


def _inner_place(tape: Tape, number: int) -> str | None:
    """The line of the softmax that made these numbers, if they were only moved since."""
    maker = inner_softmax(tape, number)
    return None if maker is None or maker.place is None else str(maker.place)


def inner_softmax(tape: Tape, number: int) -> Operation | None:
    """The softmax that made these numbers, if they were only moved since."""
    makers = tape.makers()

    maker = makers.get(origin(number, through_moves(makers)))
    return maker if maker is not None and maker.name in ("_softmax", "softmax") else None


def _in_place(window: Window, roles: Roles) -> float | None:
    """Send class numbers the way of the logits: the share that arrives where it should."""
    tape = window.tape
    if roles.logits is None or roles.scores is None or roles.vocabulary is None:
        return None
    if roles.logits == roles.scores:
        return 1.0
    layout = tape.layouts[roles.logits]
    if roles.vocabulary != layout.shape[-1]:
        return None
    numbers = torch.arange(layout.shape[-1], dtype=torch.float64)
    try:
        moved = _sent(tape, roles, numbers.expand(layout.shape).clone())
        # A class that is masked on the way is the same whatever its number: a padded vocabulary.
        kept = moved != _sent(tape, roles, (numbers + len(numbers)).expand(layout.shape).clone())
    except CannotReplay:
        return None
    wanted = torch.arange(moved.shape[-1], dtype=torch.float64)
    return float((moved == wanted)[kept].double().mean()) if bool(kept.any()) else None


def _sent(tape: Tape, roles: Roles, numbered: Tensor) -> Tensor:
    """What arrives at the loss if these numbers stand in the place of the logits."""
    assert roles.logits is not None and roles.scores is not None
    maker = tape.makers().get(roles.logits)
    since = 0 if maker is None else maker.number + 1
    moved = Replay(tape, gradients=False).run(
        [roles.scores], before=roles.scores_at, since=since, leaves={roles.logits: numbered}
    )[roles.scores]
    return moved.movedim(roles.class_axis, -1)


def _is_picked_elsewhere(tape: Tape, softmax: Operation, axis: int) -> bool:
    """Whether targets pick along another axis than the softmax was taken over.

    The places along the softmax's axis are sent through what its result goes through, and must
    arrive in order along the axis that is picked from.
    """
    result = softmax.outputs[0]
    if result is None:
        return False
    moved = {result}
    for operation in tape.operations[softmax.number + 1 :]:
        source = operation.inputs[0] if operation.inputs else None
        if source not in moved or source is None:
            continue
        if operation.name in MOVES:
            moved.update(o for o in operation.outputs if o is not None)
        elif operation.name in PICKS:
            shape = tape.layouts[source].shape
            picked = min(1, len(shape) - 1)
            if operation.name == "gather":
                picked = int(operation.args[1]) % len(shape)
            return not _arrives(tape, softmax, axis, source, operation.number, picked)
    return False


def _arrives(
    tape: Tape, softmax: Operation, axis: int, source: int, before: int, picked: int
) -> bool:
    result = softmax.outputs[0]
    assert result is not None
    shape = tape.layouts[result].shape
    numbers = torch.arange(shape[axis], dtype=torch.float64)
    numbered = numbers.reshape([-1 if i == axis else 1 for i in range(len(shape))]).expand(shape)
    if source == result:
        arrived = numbered
    else:
        since, given = softmax.number + 1, {result: numbered.clone()}
        replay = Replay(tape, gradients=False)
        try:
            arrived = replay.run([source], before=before, since=since, leaves=given)[source]
        except CannotReplay:
            return True
    along = arrived.movedim(picked, -1)
    return along.shape[-1] == len(numbers) and bool((along == numbers).all())


PROBE = Probe(Softmaxes, lambda a: softmaxes(a.window, a.roles))
