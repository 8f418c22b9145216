"""The loss of a step whose gradients are assigned by hand: the number that is read and that moves.

No backward pass says what the loss is. It is a number that the user's code reads and that is made
of tensors which the optimizer then updates. Of several such numbers it is the one whose gradient is
followed; else the one that equals the cross-entropy of the logits; else the one that was made
first, since norms of gradients and perplexities are made after it.
"""

from __future__ import annotations

import math

from lossleuth.findings.no_autograd import HandLoss
from lossleuth.probes.loss.true_loss import cross_entropy
from lossleuth.probes.no_autograd.hand_gradient import hand_gradients, updated_numbers
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.tape import Read
from lossleuth.tape.window import Window

# Cosine with the gradient that was used from which on a number is what is followed: as for
# `loss_disconnected`.
MIN_COSINE = 0.5
# Relative difference of two numbers that are the same but for dropout and rounding. Picked by hand.
SAME = 1e-3


def hand_loss(window: Window) -> HandLoss | None:
    """The loss, if a number that is read depends on what is updated; none after a backward."""
    if window.backwards or not window.updates:
        return None
    read = [r for r in window.tape.reads if r.by_user and r.place is not None and _moves(window, r)]
    if not read:
        return None
    chosen = _followed(window, read) or _cross_entropy(window, read) or _first_made(window, read)
    place, begins = str(chosen.place), _forward_begins(window)
    # A number is looked at several times while it is printed. What is read before the forward pass
    # belongs to the step before: a recording begins right after its update.
    there = dict.fromkeys(
        r.tensor for r in window.tape.reads if str(r.place) == place and r.at > begins
    )
    return HandLoss(float(chosen.value), place, list(there).index(chosen.tensor))


def _moves(window: Window, read: Read) -> bool:
    """Whether a number is made of tensors that are updated afterwards."""
    tape = window.tape
    if not tape.layouts[read.tensor].dtype.is_floating_point:
        return False
    updated = _updated(window)
    needed = tape.needed_for([read.tensor], read.at)
    return any(tape.groups[i] in updated for operation in needed for i in operation.inputs)


def _updated(window: Window) -> set[int]:
    """The memory that is updated."""
    groups = window.tape.groups
    return {groups[i] for i in updated_numbers(window).values()}


def _forward_begins(window: Window) -> int:
    """The first operation that uses what is updated."""
    groups, updated = window.tape.groups, _updated(window)
    users = (o for o in window.tape.operations if any(groups[i] in updated for i in o.inputs))
    return next((operation.number for operation in users), 0)


def _followed(window: Window, read: list[Read]) -> Read | None:
    best = next(iter(hand_gradients(window)), None)
    if best is None or best.cosine < MIN_COSINE:
        return None
    return next((r for r in read if str(r.place) == best.place and r.value == best.value), None)


def _cross_entropy(window: Window, read: list[Read]) -> Read | None:
    try:
        true = float(cross_entropy(window, dropout=False, gradients=False).mean)
    except CannotReplay:
        return None
    return next((r for r in read if math.isclose(float(r.value), true, rel_tol=SAME)), None)


def _first_made(window: Window, read: list[Read]) -> Read:
    makers = window.tape.makers()
    return min(read, key=lambda r: makers[r.tensor].number if r.tensor in makers else r.at)


PROBE = Probe(HandLoss, lambda a: hand_loss(a.window))
