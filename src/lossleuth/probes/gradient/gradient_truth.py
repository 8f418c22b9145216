"""Is the gradient that the program got the true gradient of what it differentiated?

The truth is the gradient of the replayed step in float64, taken by torch through the operations
that really ran, never through the program's own backward code. The floor is the same replay in
the recorded types: what rounding alone does.
"""

from __future__ import annotations

import math
from math import nan

import torch

from lossleuth.findings.gradient import GradientTruth, ParameterTruth
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.distance import compared, norm
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.gradients import replayed_gradients as replayed_gradients
from lossleuth.tape.replay.gradients import shared_gradients
from lossleuth.tape.replay.opacity import hidden_parameters
from lossleuth.tape.window import Backward, Window, dense


def gradient_truth(window: Window, run: Backward) -> GradientTruth:
    """Compare what a backward pass added to each gradient with the truth."""
    earlier = window.backwards[: window.backwards.index(run) + 1]
    if any(other.creates_graph for other in earlier):
        reason = "the loss may depend on a gradient (of higher order), which is not recorded"
        return GradientTruth(nan, nan, nan, nan, nan, (), untested=reason)
    try:
        true = shared_gradients(window, run, float64=True).gradients
        noisy = shared_gradients(window, run, float64=False).gradients
    except CannotReplay as reason:
        return GradientTruth(nan, nan, nan, nan, nan, (), untested=str(reason))
    roots = [root for root in run.roots if root is not None]
    hidden = hidden_parameters(window.tape, roots, run.at)
    found = {i: compared(run.added_to(i), true.get(i), noisy.get(i)) for i in run.after}
    # What the program did not ask for is part of the whole, too.
    sizes = {i: found[i].true if i in found else norm([true.get(i)]) for i in run.before}
    whole = math.hypot(*(size for number, size in sizes.items() if number not in hidden))
    unit = whole or 1.0
    every = tuple(
        ParameterTruth(
            window.name_of(number),
            gap.error / unit,
            math.hypot(gap.noise, _lost_in_sum(run, number)) / unit,
            gap.used,
            sizes.get(number, 0.0),
            hidden.get(number),
        )
        for number, gap in found.items()
        if run.after[number] is not None or true.get(number) is not None
    )
    tested = [row for row in every if row.untested is None]
    if not tested:
        return GradientTruth(
            nan, nan, nan, nan, nan, every, untested=every[0].untested if every else "none"
        )
    # Of two sides and the third of a triangle, which are known already.
    dot = sum(r.used_norm**2 + r.true_norm**2 - (r.error * unit) ** 2 for r in tested) / 2
    size = math.hypot(*(row.used_norm for row in tested))
    return GradientTruth(
        math.hypot(*(row.error for row in tested)),
        math.hypot(*(row.floor for row in tested)),
        dot / (size * whole) if size and whole else math.nan,
        dot / whole**2 if whole else math.nan,
        dot / size**2 if size else math.nan,
        every,
    )


def _lost_in_sum(run: Backward, number: int) -> float:
    """What rounding takes when a gradient is added to a larger one that was there before."""
    before, after = run.before.get(number), run.after.get(number)
    if before is None or after is None or run.returned or not after.is_floating_point():
        return 0.0
    return torch.finfo(after.dtype).eps * norm([dense(after)])


PROBE = Probe(GradientTruth, lambda a: [gradient_truth(a.window, run) for run in a.backwards])
