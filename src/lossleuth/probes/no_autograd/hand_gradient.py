"""Gradients that the program computes by hand, without autograd.

The loss is then a number that the script reads and that depends on what is updated. Its true
gradient is compared with the one that the optimizer was given.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.findings.no_autograd import HandGradient
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.distance import distance, norm
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.tape import Read
from lossleuth.tape.window import Window


def hand_gradients(window: Window) -> list[HandGradient]:
    """For each number read before the update, the best explained first; none after a backward."""
    return window.once("hand gradients", lambda: _measured(window))


def _measured(window: Window) -> list[HandGradient]:
    if window.backwards or not window.updates:
        return []
    tape = window.tape
    update = window.updates[-1]
    numbers = updated_numbers(window)
    used = {
        numbers[at]: gradient
        for at, gradient in enumerate(update.gradients)
        if at in numbers and gradient is not None
    }
    found = []
    for read in tape.reads:
        if not read.by_user or not tape.layouts[read.tensor].dtype.is_floating_point:
            continue
        try:
            true = _true(window, read, list(used), float64=True)
            noisy = _true(window, read, list(used), float64=False)
        except CannotReplay:
            continue
        size, whole = norm(used.values()), norm(true.values())
        if not size or not whole:
            continue
        dot = sum(float((used[i].double() * true[i]).sum()) for i in used)
        error = sum(distance(used[i], true[i]) ** 2 for i in used) ** 0.5 / whole
        floor = sum(distance(noisy[i], true[i]) ** 2 for i in used) ** 0.5 / whole
        place = None if read.place is None else str(read.place)
        cosine = dot / (size * whole)
        found.append(HandGradient(place, error, floor, cosine, value=float(read.value)))
    return sorted(found, key=lambda h: -h.cosine)


def updated_numbers(window: Window) -> dict[int, int]:
    """By position in the last update, each tensor's number when it was last met before it."""
    tape, update = window.tape, window.updates[-1]
    numbers: dict[int, int] = {}
    first_after = {i for op in tape.operations[update.at :] for i in op.inputs}
    before = {i for op in tape.operations[: update.at] for i in op.inputs}
    for number, leaf in tape.leaves.items():
        if number in before or number not in first_after:
            numbers[id(leaf)] = number
    met = [numbers.get(id(parameter)) for parameter in update.parameters]
    return {at: number for at, number in enumerate(met) if number is not None}


def _true(window: Window, read: Read, numbers: list[int], *, float64: bool) -> dict[int, Tensor]:
    tape = window.tape
    replay = Replay(tape, float64=float64, cuts=Cuts.OPENED)
    leaves = {i: replay.widened(tape.value(i).detach()).clone().requires_grad_() for i in numbers}
    made = replay.run([read.tensor], before=read.at, leaves=leaves)[read.tensor]
    if not made.requires_grad:
        raise CannotReplay("the number does not depend on any tensor that is updated")
    found = torch.autograd.grad(made.sum(), list(leaves.values()), allow_unused=True)
    return {
        i: torch.zeros_like(leaves[i]).double() if g is None else g.double()
        for i, g in zip(leaves, found, strict=True)
    }


PROBE = Probe(HandGradient, lambda a: hand_gradients(a.window))
