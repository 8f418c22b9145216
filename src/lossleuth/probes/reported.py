"""Is what the program reports what it follows?

Scalars that the user's own code reads are what the user sees. For each that depends on the
parameters, its gradient is compared with that of the differentiated loss: a cosine near 1 means
that following one is following the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.replay import Cuts, Replay
from lossleuth.tape.substitutes import CannotReplay
from lossleuth.tape.tape import Tape
from lossleuth.tape.window import Backward, Window

MOST_READS = 8


@dataclass(frozen=True)
class Reported:
    """A number that the user reads: cosine and scale of its gradient against the loss's own."""

    value: float
    place: str | None
    cosine: float | None
    scale: float | None
    untested: str | None = None


def reported(window: Window, run: Backward) -> list[Reported]:
    """The scalars that the user's code read in the window, each once."""
    tape = window.tape
    found: list[Reported] = []
    seen: set[int] = set()
    try:
        followed = _gradient(tape, run, [r for r in run.roots if r is not None], run.at)
    except CannotReplay as reason:
        return [Reported(0.0, None, None, None, str(reason))]
    for read in tape.reads:
        if not read.by_user or read.tensor in seen or len(found) >= MOST_READS:
            continue
        if not tape.layouts[read.tensor].dtype.is_floating_point:
            continue
        seen.add(read.tensor)
        place = None if read.place is None else str(read.place)
        try:
            own = _gradient(tape, run, [read.tensor], read.at)
        except CannotReplay as reason:
            if _depends(tape, read.tensor, read.at):
                found.append(Reported(float(read.value), place, None, None, str(reason)))
            continue
        size, other = float(own.norm()), float(followed.norm())
        if size and other:
            dot = float(own @ followed)
            found.append(Reported(float(read.value), place, dot / (size * other), dot / other**2))
    return found


def _gradient(tape: Tape, run: Backward, wanted: list[int], before: int) -> Tensor:
    """The gradient of some scalars for all parameters, as one vector in float64."""
    replay = Replay(tape, cuts=Cuts.OPENED)
    leaves = {
        i: replay.widened(tape.value(i).detach()).clone().requires_grad_() for i in run.before
    }
    made = replay.run(wanted, before=before, leaves=leaves)
    total = [made[i].sum() for i in wanted if made[i].requires_grad]
    if not total:
        raise CannotReplay("it does not depend on the parameters")
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    parts = [
        torch.zeros(leaf.numel(), dtype=torch.float64) if g is None else g.reshape(-1).double()
        for leaf, g in zip(leaves.values(), found, strict=True)
    ]
    return torch.cat(parts)


def _depends(tape: Tape, number: int, before: int) -> bool:
    parameters = tape.parameters
    operations = tape.needed_for([number], before)
    return any(i in parameters for operation in operations for i in operation.inputs)
