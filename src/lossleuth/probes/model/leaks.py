"""Do the logits depend on later positions, on other rows, or not on the input at all?

Tokens are changed where the program looks them up, the step is replayed in float64, and the
logits are compared. In a sound model a change at one position leaves every earlier position and
every other row exactly as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from lossleuth.findings.model import Leaks
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.model.leak_lines import (
    batch_leak_place,
    future_leak_place,
    lost_input_place,
)
from lossleuth.probes.model.other_tokens import others_than
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.alignment import alignment, is_counted, supervision
from lossleuth.tape.roles.roles import Roles, token_values
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Window

# The rounding floor, in units of the last digit of the logits. Picked by hand: other tokens may
# change how a kernel splits its work, and so the order of its sums.
ROUNDING_FLOOR_ULPS = 1e4


def leaks(window: Window, roles: Roles | None) -> Leaks:
    """Change tokens and see which logits move."""
    watched = None if roles is None else roles.logits
    if roles is not None and roles.features is not None:
        watched = roles.features.number
    if roles is None or watched is None or roles.tokens is None:
        return _untested("no logits that depend on tokens were found")
    tape, tokens = window.tape, token_values(window.tape, roles)
    if tokens is None or tokens.dim() != 2:
        return _untested("the tokens are not a batch of sequences")
    shape = tape.layouts[watched].shape
    width = shape[-1] if roles.features is not None else roles.vocabulary or 1
    if math.prod(shape) != tokens.numel() * width or shape[-1] != width:
        return _untested("there is not one row of logits for each token")
    found = alignment(window, roles)
    texts = _Texts(tape, roles, watched, tokens, found.time_axis)
    supervised = _supervised(window, roles, tokens)
    if texts.tokens.shape[1] < 2:
        return _untested("the tokens are not a batch of sequences")
    try:
        measured = _measure(texts, supervised if found.time_axis else supervised.t())
    except CannotReplay as reason:
        return _untested(str(reason))
    asked_for_next = found.untested is not None or found.shares.get(1, 0.0) > 0.5
    if not asked_for_next and (measured.future or 0.0) > measured.floor:
        # A model that is not asked for the next token may see its whole input.
        return replace(measured, future=None)
    return measured


def _untested(reason: str) -> Leaks:
    return Leaks(None, None, None, None, untested=reason)


@dataclass
class _Texts:
    """The step with other tokens: each row a text, whichever axis of the tokens time runs along."""

    tape: Tape
    roles: Roles
    watched: int
    recorded: Tensor
    time_axis: int
    # Operations that ran in less than float64.
    narrow: list[Operation] = field(default_factory=list)

    @property
    def tokens(self) -> Tensor:
        return self.recorded if self.time_axis else self.recorded.t()

    def logits(self, tokens: Tensor) -> Tensor:
        """What is watched, as texts, positions and numbers, where these are looked up."""
        replay = Replay(self.tape, gradients=False, replay_choices=False)
        given = tokens if self.time_axis else tokens.t()

        def swap(number: int, there: Tensor) -> Tensor:
            here = number == self.roles.tokens_at
            return given.reshape(there.shape).to(there.dtype) if here else there

        assert self.roles.tokens is not None
        inputs = {self.roles.tokens: swap}
        found = replay.run([self.watched], before=self.roles.run.at, inputs=inputs)
        self.narrow.extend(replay.narrow)
        made = found[self.watched].detach().reshape(*self.recorded.shape, -1)
        return made if self.time_axis else made.transpose(0, 1)


def _supervised(window: Window, roles: Roles, tokens: Tensor) -> Tensor:
    """Which positions are supervised; all of them if that is unknown."""
    try:
        _, places, targets = supervision(window, roles)
    except CannotReplay:
        return torch.ones(tokens.shape, dtype=torch.bool)
    found = torch.zeros(tokens.numel(), dtype=torch.bool)
    found[places[is_counted(targets, roles)]] = True
    return (found if found.any() else ~found).reshape(tokens.shape)


def _measure(texts: _Texts, supervised: Tensor) -> Leaks:
    tokens = texts.tokens
    rows, length = tokens.shape
    before = texts.logits(tokens)
    unit = float(before.std()) or 1.0
    # Between the first and the last that count, so that some of those come before.
    columns = torch.nonzero(supervised.any(0)).reshape(-1)
    middle = max(1, (int(columns[0]) + int(columns[-1]) + 1) // 2)
    changed = tokens.clone()
    changed[:, middle] = others_than(tokens, tokens[:, middle])
    moved = (texts.logits(changed) - before).abs().amax(-1) / unit
    # Positions that are not supervised, such as a prefix, may see everything.
    earlier = moved[:, :middle][supervised[:, :middle]]
    future = float(earlier.max()) if earlier.numel() else 0.0
    own = float(moved[:, middle].max())
    batch = None
    if rows > 1:
        changed = tokens.clone()
        changed[0] = others_than(tokens, tokens[0])
        batch = float((texts.logits(changed) - before).abs()[1:].max()) / unit
    order = None
    if length > 3:
        changed = tokens.clone()
        changed[:, [0, 1]] = tokens[:, [1, 0]]
        order = float((texts.logits(changed) - before).abs()[:, 2:].max()) / unit
    # Some kernels do not support float64; then their own precision sets the floor.
    floor = ROUNDING_FLOOR_ULPS * 2.0 ** (-23 if texts.narrow else -52)
    return Leaks(future, batch, own, order, floor=floor)


def located_leaks(analysis: Analysis) -> Leaks:
    """Leaks, and the lines where they enter.

    Each place is searched for once in a run.
    """
    window, roles, memory = analysis.window, analysis.roles, analysis.memory
    found = leaks(window, roles)
    if roles is None:
        return found
    if found.future is not None and found.future > found.floor:
        place = memory.place("future leak", lambda: future_leak_place(window, roles))
        found = replace(found, places=() if place is None else (place,))
    if found.batch is not None and found.batch > found.floor:
        place = memory.place("batch leak", lambda: batch_leak_place(window, roles))
        found = replace(found, batch_places=() if place is None else (place,))
    if found.own is not None and found.own <= found.floor:
        place = memory.place("lost input", lambda: lost_input_place(window, roles))
        found = replace(found, lost_places=() if place is None else (place,))
    return found


PROBE = Probe(Leaks, located_leaks)
