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
from lossleuth.probes.gradient.custom_function import trusted_calls
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
        return _untested(
            "the loss may depend on a gradient (of higher order), which is not recorded"
        )
    # Before any replay: they are made again in it.
    trusted = trusted_calls(window)
    try:
        true = shared_gradients(window, run, float64=True).gradients
        noisy = shared_gradients(window, run, float64=False).gradients
    except CannotReplay as reason:
        return _untested(str(reason))
    roots = [root for root in run.roots if root is not None]
    hidden = hidden_parameters(window.tape, roots, run.at, trusted)
    found = {i: compared(run.added_to(i), true.get(i), noisy.get(i)) for i in run.after}
    # What the program did not ask for is part of the whole, too.
    sizes = {i: found[i].true if i in found else norm([true.get(i)]) for i in run.before}
    whole = math.hypot(*(size for number, size in sizes.items() if number not in hidden))
    unit = whole or 1.0
    every = {
        number: ParameterTruth(
            window.name_of(number),
            gap.error / unit,
            math.hypot(gap.noise, _lost_in_sum(run, number)) / unit,
            untested=hidden.get(number),
        )
        for number, gap in found.items()
        if run.after[number] is not None or true.get(number) is not None
    }
    parameters = tuple(every.values())
    tested = {number: row for number, row in every.items() if row.untested is None}
    if not tested:
        hidden_by = parameters[0].untested if parameters else None
        return _untested(hidden_by or "no parameter got a gradient", parameters)
    # The dot product, from the three sides of a triangle, which are known already.
    dot = (
        sum(
            found[i].used ** 2 + sizes.get(i, 0.0) ** 2 - (row.error * unit) ** 2
            for i, row in tested.items()
        )
        / 2
    )
    size = math.hypot(*(found[i].used for i in tested))
    return GradientTruth(
        error=math.hypot(*(row.error for row in tested.values())),
        floor=math.hypot(*(row.floor for row in tested.values())),
        cosine=dot / (size * whole) if size and whole else nan,
        scale=dot / whole**2 if whole else nan,
        parameters=parameters,
    )


def _untested(reason: str, parameters: tuple[ParameterTruth, ...] = ()) -> GradientTruth:
    return GradientTruth(nan, nan, nan, nan, parameters, untested=reason)


def _lost_in_sum(run: Backward, number: int) -> float:
    """What rounding loses when a gradient is added to a larger one."""
    before, after = run.before.get(number), run.after.get(number)
    if before is None or after is None or run.returned or not after.is_floating_point():
        return 0.0
    return torch.finfo(after.dtype).eps * norm([dense(after)])


PROBE = Probe(GradientTruth, lambda a: [gradient_truth(a.window, run) for run in a.backwards])
