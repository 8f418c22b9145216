"""Does the update go down the gradient that it was given?"""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.probes.distance import norm
from lossleuth.tape.window import Window, dense


@dataclass(frozen=True)
class Descent:
    """Cosine between the update and the negative gradient; below 0 it goes up."""

    cosine: float
    # Share of all that moves, tensor by tensor, that goes up.
    rising_share: float


def descent(window: Window) -> Descent | None:
    """Over all parameters of the step's updates together."""
    dot = moved = size = rising = 0.0
    for update in window.updates:
        for before, after, gradient in zip(
            update.before, update.after, update.gradients, strict=False
        ):
            if gradient is None:
                continue
            wide = dense(gradient)
            change = after.double() - before.double()
            product = -float((change * wide).sum())
            dot += product
            rising += max(0.0, -product)
            moved += norm([change]) ** 2
            size += norm([wide]) ** 2
    if not moved or not size:
        return None
    # What falls less what rises is the whole.
    total = dot + 2 * rising
    return Descent(dot / (moved * size) ** 0.5, rising / total if total > 0 else 0.0)
