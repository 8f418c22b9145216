"""Does the update go down the gradient that it was given?"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from lossleuth.findings.update import Descent
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.distance import norm
from lossleuth.tape.window import Window, dense


def descent(window: Window) -> Descent | None:
    """Compare over all updated parameters together."""
    dot = moved = size = 0.0
    for before, after, gradient in _changes(window):
        slope = dense(gradient)
        change = after.double() - before.double()
        dot -= float((change * slope).sum())
        moved += norm([change]) ** 2
        size += norm([slope]) ** 2
    return Descent(dot / (moved * size) ** 0.5) if moved and size else None


def _changes(window: Window) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Each parameter before and after its update, with the gradient that was there."""
    for update in window.updates:
        values = zip(update.before, update.after, update.gradients, strict=False)
        yield from ((b, a, g) for b, a, g in values if g is not None)
    runs = [run for run in window.backwards if not run.returned]
    if window.updates or not runs:
        return
    # Without an optimizer, the parameters' present values show the update made by hand.
    for number, gradient in runs[-1].after.items():
        leaf = window.tape.leaves[number]
        before = window.tape.value(number)
        if gradient is not None and before.shape == leaf.shape:
            yield before.detach(), leaf.detach(), gradient


PROBE = Probe(Descent, lambda a: descent(a.window))
