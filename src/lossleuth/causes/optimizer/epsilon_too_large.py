"""Epsilon is so large that Adam does not adapt.

What it means
    Adam divides the mean gradient m by √v + ε. Where ε is far above √v, the step is m/ε: a descent
    whose rate is the learning rate over ε, and no longer as long as the learning rate says.

Why training fails
    Steps are shorter than intended by about ε/√v, most of all where gradients are small.

How it is judged
    The share of elements whose √v is below ε, among those with a gradient, in the median of all
    steps: each of these makes less than half its step. An epsilon of at most torch's default is not
    blamed: gradients that are small beside that are a fault of another kind. Whether it matters is
    tried: the same run with epsilon at torch's default.

How to fix
    Take the default, 1e-8, or for half precision about 1e-6; look whether epsilon and another
    argument were mixed up.

When this verdict is wrong
    When epsilon is large on purpose and the learning rate was chosen to suit it, for a run that
    is slow at first and better in the end: trials are short.
"""

from __future__ import annotations

import math
import statistics

from lossleuth.causes.reasoning import decided_by_trial, finite, optimizer_place
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_STEPS = Limit(4, "fewest steps on which epsilon was compared with the second moment")
USUAL_EPSILON = Limit(1e-8, "largest epsilon that is never blamed", "torch's default for Adam")
MIN_SHARE = Limit(
    0.9, "least share of elements with a gradient, in the median of all steps, that are below it"
)
MIN_GAIN = Limit(
    0.1, "least gain, in nats, of a trial with the usual epsilon, and least progress there"
)
CURE = Change.of("cap_epsilon", value=1e-8)


def judge(evidence: Evidence) -> Judgement:
    """Suspect it where nearly every element is below epsilon, and try the usual one."""
    epsilons = _epsilons(evidence)
    if not epsilons:
        return untested("no optimizer with an epsilon was seen")
    largest = max(epsilons)
    if largest <= USUAL_EPSILON:
        return refuted(
            f"epsilon is {largest:.3g}, no larger than torch's default of {USUAL_EPSILON:.0e}"
        )
    shares = _shares(evidence)
    if len(shares) < MIN_STEPS:
        return untested(f"epsilon was compared with the second moment on {len(shares)} steps only")
    usual = statistics.median(shares)
    if usual < MIN_SHARE:
        return refuted(
            f"the root of the second moment is below epsilon, {largest:.3g}, in {usual:.1%} of the "
            "elements in the median: Adam adapts"
        )
    fault = Judgement(
        Status.SUSPECTED,
        f"Epsilon is {largest:.3g}, above the root of the second moment in {usual:.0%} of the "
        f"elements in the median of {len(shares)} steps; it should be in about 0 %, as with "
        f"{USUAL_EPSILON:.0e}.",
        optimizer_place(evidence),
        Wrongness("share of elements below epsilon", usual, 0.0, float(MIN_SHARE)),
        remedy=f"Make the optimizer with eps={USUAL_EPSILON:.0e}.",
    )
    decided = decided_by_trial(evidence, fault, [CURE], min_effect=MIN_GAIN)
    harm = decided.harm
    if decided.status is Status.PROVEN and harm is not None and harm.possible < MIN_GAIN:
        return refuted(f"no epsilon learns, the other one is only less bad: {harm.sentence}")
    return decided


def _epsilons(evidence: Evidence) -> list[float]:
    """Every group's epsilon, where it is one number; some optimizers have two, or none."""
    given = [group.eps for group in evidence.settings.groups]
    return finite(epsilon for epsilon in given if isinstance(epsilon, int | float))


def _shares(evidence: Evidence) -> list[float]:
    """The share of each step's elements with a gradient that are below epsilon, at the least.

    Elements that never had a gradient, as rows of tokens that were not seen, are below any epsilon
    and do not move with any: those without a gradient are taken to be below, and left out.
    """
    readings = evidence.readings
    found = []
    for under, still in zip(readings.epsilon_share, readings.grad_zero_share, strict=False):
        known = [
            (max(0.0, below - zero) * size, (1 - zero) * size)
            for below, zero, size in zip(under, still, evidence.sizes, strict=False)
            if math.isfinite(below) and math.isfinite(zero)
        ]
        moving = sum(moves for _, moves in known)
        if moving > 0:
            found.append(sum(below for below, _ in known) / moving)
    return found


CAUSE = Cause(
    "epsilon_too_large",
    Stage.OPTIMIZER,
    "epsilon is so large that Adam does not adapt",
    judge,
    limits=(MIN_STEPS, USUAL_EPSILON, MIN_SHARE, MIN_GAIN),
    overlaps=("lr_too_low", "clip_too_tight", "loss_scale", "update_swallowed"),
)
