"""Is the gradient that the program got the true gradient of what it differentiated?

The truth is the gradient of the replayed step in float64, taken by torch through the operations
that really ran, never through the program's own backward code. The floor is the same replay in
the recorded types: what rounding alone does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import torch

from lossleuth.probes.distance import distance, norm
from lossleuth.tape.opacity import hidden_parameters
from lossleuth.tape.replay import Cuts, Replay
from lossleuth.tape.substitutes import CannotReplay
from lossleuth.tape.tape import Tape
from lossleuth.tape.window import Backward, Gradients, Window, dense


@dataclass(frozen=True)
class ParameterTruth:
    """One parameter: its error as a share of the whole gradient's norm, and the floor of that."""

    name: str
    error: float
    floor: float
    used_norm: float
    true_norm: float
    untested: str | None = None


@dataclass(frozen=True)
class GradientTruth:
    """The whole gradient of one backward pass; `untested` says why nothing can be said."""

    error: float
    floor: float
    cosine: float
    scale: float
    # Slope of the loss along the gradient that was used, over what it would be if that were true.
    directional: float
    parameters: tuple[ParameterTruth, ...]
    untested: str | None = None


def gradient_truth(window: Window, run: Backward) -> GradientTruth:
    """Compare what a backward pass added to each gradient with the truth."""
    earlier = window.backwards[: window.backwards.index(run) + 1]
    if any(other.creates_graph for other in earlier):
        reason = "the loss may depend on a gradient (of higher order), which is not recorded"
        return GradientTruth(nan, nan, nan, nan, nan, (), reason)
    try:
        true = replayed_gradients(window.tape, run, wide=True)
        noisy = replayed_gradients(window.tape, run, wide=False)
    except CannotReplay as reason:
        return GradientTruth(nan, nan, nan, nan, nan, (), str(reason))
    roots = [root for root in run.roots if root is not None]
    hidden = hidden_parameters(window.tape, roots, run.at)
    used = run.added()
    whole = norm(g for number, g in true.items() if number not in hidden)
    rows = []
    for number in used:
        a, b, c = used[number], true.get(number), noisy.get(number)
        if a is None and b is None:
            continue
        rows.append(
            ParameterTruth(
                window.name_of(number),
                distance(a, b) / whole if whole else distance(a, b),
                distance(c, b) / whole if whole else distance(c, b),
                norm([a]),
                norm([b]),
                hidden.get(number),
            )
        )
    tested = [row for row in rows if row.untested is None]
    if not tested:
        return GradientTruth(
            nan, nan, nan, nan, nan, tuple(rows), rows[0].untested if rows else "none"
        )
    dot = sum(
        float((a * b).sum())
        for number, a in used.items()
        if a is not None and (b := true.get(number)) is not None and number not in hidden
    )
    size = norm(g for number, g in used.items() if number not in hidden)
    return GradientTruth(
        math.hypot(*(row.error for row in tested)),
        math.hypot(*(row.floor for row in tested)),
        dot / (size * whole) if size and whole else math.nan,
        dot / whole**2 if whole else math.nan,
        dot / size**2 if size else math.nan,
        tuple(rows),
    )


def replayed_gradients(
    tape: Tape,
    run: Backward,
    *,
    wide: bool,
    cuts: Cuts = Cuts.KEPT,
    between: Sequence[int] = (),
) -> Gradients:
    """The gradient of what a backward pass differentiated, for all parameters on the tape.

    Also for the tensors `between` parameters and loss, where asked for.
    """
    replay = Replay(tape, wide=wide, cuts=cuts)
    numbers = list(run.before)
    with torch.inference_mode(mode=False):
        leaves = {
            i: replay.copied(tape.value(i)).requires_grad_() for i in numbers
        }
    roots = [root for root in run.roots if root is not None]
    if len(roots) != len(run.roots):
        raise CannotReplay("the program differentiated something that was made before the window")
    made = replay.run(roots, before=run.at, leaves=leaves, kept=between)
    outputs = [made[root] for root in roots]
    if not any(output.requires_grad for output in outputs):
        raise CannotReplay("no recorded operation leads from a parameter to the loss")
    seeds = [
        torch.ones_like(output) if seed is None else seed.to(output.dtype)
        for output, seed in zip(outputs, run.seeds, strict=True)
    ]
    live = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    leaves |= {i: made[i] for i in between if i in made and made[i].requires_grad}
    found = torch.autograd.grad(
        [o for o, _ in live],
        list(leaves.values()),
        [s for _, s in live],
        allow_unused=True,
    )
    return {
        number: None if gradient is None else dense(gradient)
        for number, gradient in zip(leaves, found, strict=True)
    }


def stale_share(window: Window) -> float | None:
    """Size of the gradient that was there before the step's first backward pass, over its own.

    0 where gradients were cleared. Later passes of the step add to those before on purpose.
    """
    runs = [run for run in window.backwards if not run.returned]
    if not runs:
        return None
    size = norm(runs[0].added().values())
    return norm(runs[0].before.values()) / size if size else None
