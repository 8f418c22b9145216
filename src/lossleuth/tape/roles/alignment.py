"""The offset of each target from the position that predicts it: the next token is 1.

Where a row of the loss came from is found by sending position numbers through the very operations
that the logits went through; which token it is compared with, by content.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lossleuth.findings.data import Alignment
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.roles import Roles, recorded_value, token_values
from lossleuth.tape.window import Window

OFFSETS = range(-2, 4)


def alignment(window: Window, roles: Roles | None) -> Alignment:
    """Compare the targets of the loss with the tokens of the input."""
    try:
        tokens, places, targets = supervision(window, roles)
    except CannotReplay as reason:
        return Alignment(None, {}, 0, 0, untested=str(reason))
    assert roles is not None
    counted = is_counted(targets, roles)
    by_axis = {axis: _shares(tokens, places, targets, counted, axis) for axis in (0, 1)}
    axis = time_axis(by_axis)
    shares = by_axis[axis]
    best = max(shares, key=lambda o: (shares[o], o == 1), default=None)
    if best is not None and shares[best] <= 0.5:
        best = None
    return Alignment(
        best,
        shares,
        int(counted.sum()),
        len(targets),
        time_axis=axis,
        distinct_tokens=len(torch.unique(tokens)),
        distinct_targets=len(torch.unique(targets[counted])),
    )


def supervision(window: Window, roles: Roles | None) -> tuple[Tensor, Tensor, Tensor]:
    """The tokens; for each row of the loss its flat position among them; its target."""
    if roles is None or roles.targets is None or (roles.logits is None and not roles.features):
        raise CannotReplay("no targets of a loss were found")
    tokens = token_values(window.tape, roles)
    if tokens is None or tokens.dim() != 2:
        raise CannotReplay("the tokens are not a batch of sequences")
    places = row_places(window, roles, tokens)
    targets = recorded_value(window.tape, roles.targets, roles.run.at).reshape(-1)
    if len(places) != len(targets):
        raise CannotReplay("the number of targets is not the number of rows of logits")
    return tokens, places, targets


def is_counted(targets: Tensor, roles: Roles) -> Tensor:
    """Which targets are supervised."""
    return targets != roles.ignored if roles.ignored is not None else targets == targets


def time_axis(by_axis: dict[int, dict[int, float]]) -> int:
    """The time axis: the second, unless targets are next tokens along the first alone."""
    next_along = {axis: shares.get(1, 0.0) for axis, shares in by_axis.items()}
    return 0 if next_along[0] > 0.5 and next_along[0] > next_along[1] else 1


def _shares(
    tokens: Tensor, places: Tensor, targets: Tensor, counted: Tensor, axis: int
) -> dict[int, float]:
    """For each offset along an axis, the share of targets that are the token there."""
    at = [places // tokens.shape[1], places % tokens.shape[1]]
    shares = {}
    for offset in OFFSETS:
        there = list(at)
        there[axis] = at[axis] + offset
        inside = counted & (there[axis] >= 0) & (there[axis] < tokens.shape[axis])
        if inside.any():
            same = tokens[there[0][inside], there[1][inside]] == targets[inside]
            shares[offset] = float(same.double().mean())
    return shares


def row_places(window: Window, roles: Roles, tokens: Tensor) -> Tensor:
    """For each row of the loss, the flat position in the batch whose logits it uses."""
    tape, origin = window.tape, torch.arange(tokens.numel(), dtype=torch.float64)
    if roles.features is not None:
        first = roles.features
        taken = sent(window, first.number, tokens.numel(), first.factor, first.taken_at)
        origin = taken.median(-1).values.reshape(-1)
    if roles.logits is None or roles.scores is None:
        return _whole(origin, tokens.numel())
    shape = tape.layouts[roles.logits].shape
    classes = roles.vocabulary or 1
    if shape[-1] != classes:
        raise CannotReplay("the classes are not the last axis of the logits")
    rows = math.prod(shape) // classes
    if len(origin) != rows:
        raise CannotReplay("there is not one row of logits for each token")
    moved = sent(window, roles.logits, rows, roles.scores, roles.scores_at)
    # The median of a row: some classes may be masked with other numbers on the way.
    places = moved.movedim(roles.class_axis, -1).median(-1).values.reshape(-1)
    places = origin[_whole(places, rows)]
    return _whole(places, tokens.numel())


def sent(window: Window, number: int, rows: int, to: int, before: int | None) -> Tensor:
    """Send row numbers from one tensor to another: which row each element comes from."""
    tape = window.tape
    shape = tape.layouts[number].shape
    width = math.prod(shape) // max(rows, 1)
    numbered = torch.arange(rows, dtype=torch.float64).repeat_interleave(width).reshape(shape)
    if to == number:
        return numbered
    maker = tape.makers().get(number)
    since = 0 if maker is None else maker.number + 1
    replay = Replay(tape, gradients=False)
    given = {number: numbered} | _met_on_the_way(window, number, to, since, before)
    return replay.run([to], before=before, since=since, leaves=given)[to]


def _met_on_the_way(
    window: Window, number: int, to: int, since: int, before: int | None
) -> dict[int, Tensor]:
    """Tensors made earlier that the way uses, such as the indices that are picked."""
    tape = window.tape
    operations = tape.needed_for([to], before, since)
    made = {o for operation in operations for o in operation.outputs}
    used = {i for operation in operations for i in operation.inputs}
    others = [i for i in used - made - {number} if i not in tape.leaves]
    return Replay(tape, gradients=False).run(others, before=since) if others else {}


def _whole(places: Tensor, count: int) -> Tensor:
    if not bool(((places >= 0) & (places < count) & (places == places.round())).all()):
        raise CannotReplay("the logits are changed on their way to the loss")
    return places.long()
