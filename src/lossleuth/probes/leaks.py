"""What the logits depend on: later positions, other rows, or not the input at all.

Tokens are changed where the program looks them up, the step is replayed in float64, and the
logits are compared. In a sound model a change at one position leaves every earlier position and
every other row exactly as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lossleuth.tape.replay import Replay
from lossleuth.tape.roles import Roles, token_values
from lossleuth.tape.substitutes import CannotReplay
from lossleuth.tape.tape import Operation
from lossleuth.tape.window import Window

# In units of the last digit.
ROUNDING = 1e4


@dataclass(frozen=True)
class Leaks:
    """Largest changes of logits, as shares of their standard deviation."""

    # At positions before the changed one; exactly 0 in a causal model.
    future: float | None
    # In rows other than the changed one.
    batch: float | None
    # At the changed position itself, where 0 means that the input does not matter.
    own: float | None
    # At the last position when two tokens before it are exchanged.
    order: float | None
    untested: str | None = None
    # Changes up to this come from rounding, where a change of tokens changes how work is cut up.
    floor: float = ROUNDING * 2.0**-52


def leaks(window: Window, roles: Roles | None) -> Leaks:
    """Change tokens and see which logits move."""
    if roles is None or roles.logits is None or roles.tokens is None:
        return Leaks(None, None, None, None, "no logits that depend on tokens were found")
    tape = window.tape
    tokens = token_values(window.tape, roles)
    logits_shape = tape.layouts[roles.logits].shape
    if tokens is None or tokens.dim() != 2 or tokens.shape[1] < 2:
        return Leaks(None, None, None, None, "the tokens are not rows of positions")
    classes = roles.vocabulary or 1
    if math.prod(logits_shape) != tokens.numel() * classes or logits_shape[-1] != classes:
        return Leaks(None, None, None, None, "the logits are not one row per token")

    narrow: list[Operation] = []

    def logits(changed: Tensor) -> Tensor:
        replay = Replay(tape, gradients=False, decided=False)

        def swap(number: int, there: Tensor) -> Tensor:
            return changed.reshape(there.shape).to(there.dtype) if number == at else there

        at = roles.tokens_at
        assert roles.logits is not None and roles.tokens is not None
        found = replay.run([roles.logits], before=roles.run.at, inputs={roles.tokens: swap})
        narrow.extend(replay.narrow)
        return found[roles.logits].detach().reshape(*tokens.shape, classes)

    try:
        before = logits(tokens)
        found = _measure(tokens, before, logits)
        # Some kernels know no float64; then their digits count.
        return replace(found, floor=ROUNDING * 2.0**-23) if narrow else found
    except CannotReplay as reason:
        return Leaks(None, None, None, None, str(reason))


def _measure(tokens: Tensor, before: Tensor, logits: object) -> Leaks:
    assert callable(logits)
    rows, length = tokens.shape
    middle = length // 2
    unit = float(before.std()) or 1.0
    changed = tokens.clone()
    changed[:, middle] = _others(tokens, tokens[:, middle])
    moved = (logits(changed) - before).abs()
    future = float(moved[:, :middle].max()) / unit
    own = float(moved[:, middle].max()) / unit
    batch = None
    if rows > 1:
        changed = tokens.clone()
        changed[0] = _others(tokens, tokens[0])
        batch = float((logits(changed) - before).abs()[1:].max()) / unit
    order = None
    if length > 3:
        changed = tokens.clone()
        changed[:, [0, 1]] = tokens[:, [1, 0]]
        order = float((logits(changed) - before).abs()[:, 2:].max()) / unit
    return Leaks(future, batch, own, order)


def _others(tokens: Tensor, present: Tensor) -> Tensor:
    """For each token another one that occurs in the batch."""
    known = torch.unique(tokens)
    if len(known) < 2:
        raise CannotReplay("the batch holds one token only")
    place = torch.searchsorted(known, present.contiguous())
    far: Tensor = known[(place + 1 + len(known) // 2) % len(known)]
    return torch.where(far != present, far, known[(place + 1) % len(known)])
