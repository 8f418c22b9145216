"""Which token each target is, counted from the position that predicts it: next is 1.

Where a row of the loss came from is found by sending position numbers through the very operations
that the logits went through; which token it is compared with, by content.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.replay import Replay
from lossleuth.tape.roles import Roles, token_values
from lossleuth.tape.substitutes import CannotReplay
from lossleuth.tape.window import Window

OFFSETS = range(-2, 4)


@dataclass(frozen=True)
class Alignment:
    """Share of supervised targets that are the token at each offset, and how many there are."""

    # The offset that explains most, if it explains most of them.
    offset: int | None
    shares: dict[int, float]
    supervised: int
    targets: int
    untested: str | None = None


def alignment(window: Window, roles: Roles | None) -> Alignment:
    """Compare the targets of the loss with the tokens of the input."""
    if roles is None or roles.targets is None or roles.scores is None or roles.logits is None:
        return Alignment(None, {}, 0, 0, "no targets that a loss picks by were found")
    tokens = token_values(window.tape, roles)
    if tokens is None or tokens.dim() != 2:
        return Alignment(None, {}, 0, 0, "the tokens are not rows of positions")
    try:
        places = row_places(window, roles, tokens)
        targets = _values(window, roles.targets, roles).reshape(-1)
    except CannotReplay as reason:
        return Alignment(None, {}, 0, 0, str(reason))
    if len(places) != len(targets):
        return Alignment(None, {}, 0, len(targets), "as many targets as rows of scores expected")
    counted = targets != roles.ignored if roles.ignored is not None else targets == targets
    rows, columns = places // tokens.shape[1], places % tokens.shape[1]
    shares = {}
    for offset in OFFSETS:
        there = columns + offset
        inside = counted & (there >= 0) & (there < tokens.shape[1])
        if inside.any():
            same = tokens[rows[inside], there[inside]] == targets[inside]
            shares[offset] = float(same.double().mean())
    best = max(shares, key=lambda o: (shares[o], o == 1), default=None)
    if best is not None and shares[best] <= 0.5:
        best = None
    return Alignment(best, shares, int(counted.sum()), len(targets))


def row_places(window: Window, roles: Roles, tokens: Tensor) -> Tensor:
    """For each row of the loss, the flat position in the batch whose logits it uses."""
    tape = window.tape
    assert roles.logits is not None and roles.scores is not None
    layout = tape.layouts[roles.logits]
    classes = roles.vocabulary or 1
    if layout.shape[-1] != classes:
        raise CannotReplay("the classes are not the last axis of the logits")
    count = tokens.numel()
    numbered = torch.arange(count, dtype=torch.float64).repeat_interleave(classes)
    if numbered.numel() != math.prod(layout.shape):
        raise CannotReplay("the logits are not one row per token")
    numbered = numbered.reshape(layout.shape)
    if roles.scores == roles.logits:
        moved = numbered
    else:
        maker = tape.makers().get(roles.logits)
        since = 0 if maker is None else maker.number + 1
        replay = Replay(tape, gradients=False)
        given = {roles.logits: numbered}
        found = replay.run([roles.scores], before=roles.scores_at, since=since, leaves=given)
        moved = found[roles.scores]
    # The middle one of a row: some classes may be masked with other numbers on the way.
    places = moved.movedim(roles.class_axis, -1).median(-1).values.reshape(-1)
    if not bool(((places >= 0) & (places < count) & (places == places.round())).all()):
        raise CannotReplay("the logits are changed on their way to the loss")
    return places.long()


def _values(window: Window, number: int, roles: Roles) -> Tensor:
    tape = window.tape
    if number in tape.leaves:
        return tape.value(number)
    return Replay(tape, gradients=False).run([number], before=roles.run.at)[number]
