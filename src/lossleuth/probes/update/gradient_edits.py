"""What happened to gradients between the backward pass and the update.

Clipping and unscaling multiply all of them by one number. Anything else, such as one parameter's
gradient set to zero, is a change of direction that somebody made.
"""

from __future__ import annotations

import statistics

from torch import Tensor

from lossleuth.findings.update import GradientEdits
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.distance import distance, norm
from lossleuth.tape.window import Window, dense

# Rounding of a multiplication in place, in float32 and with room for half precision's own.
MAX_ROUNDING_SHARE = 1e-5


def gradient_edits(window: Window) -> GradientEdits | None:
    """Compare what the last backward pass left with what the update used."""
    runs = [run for run in window.backwards if not run.returned]
    if not runs or not window.updates:
        return None
    used = {
        id(parameter): gradient
        for update in window.updates
        if update.at >= runs[-1].at
        for parameter, gradient in zip(update.parameters, update.gradients, strict=True)
    }
    factors: dict[str, float | None] = {}
    for number, left in runs[-1].after.items():
        parameter = window.tape.leaves[number]
        if left is None or id(parameter) not in used or not norm([dense(left)]):
            continue
        factors[window.name_of(number)] = _factor(dense(left), used[id(parameter)])
    scaled = [factor for factor in factors.values() if factor is not None]
    if not scaled:
        return None
    usual = statistics.median(scaled)
    others = tuple(
        (name, factor)
        for name, factor in factors.items()
        if factor is None or abs(factor - usual) > MAX_ROUNDING_SHARE * max(abs(usual), abs(factor))
    )
    wiped = sum(factor == 0 for factor in scaled)
    return GradientEdits(usual, others, len(factors), wiped)


def _factor(left: Tensor, used: Tensor | None) -> float | None:
    """By which number a gradient was multiplied; None if that is not all that was done to it."""
    if used is None:
        return 0.0
    used = dense(used)
    size = norm([left])
    # Summed alike, so that a gradient that nobody touched has a factor of exactly 1.
    factor = float((left * used).sum() / (left * left).sum())
    return (
        factor
        if distance(used, factor * left) <= MAX_ROUNDING_SHARE * max(size, norm([used]))
        else None
    )


PROBE = Probe(GradientEdits, lambda a: gradient_edits(a.window))
