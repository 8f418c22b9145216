"""The update goes up the gradient.

What it means
    A sign is wrong: the loss is negated, the optimizer maximises, or the update is added where it
    should be subtracted.

Why training fails
    The loss rises, step by step.

How it is judged
    The cosine between the update and the negative gradient, and between what is differentiated and
    cross-entropy at the logits: one of them is negative on every recorded step. Whether it matters
    is tried: the same run with every update turned around. A learning rate below 0, as of a
    schedule that goes on past its end, is proven where the loss surely rises from there on.

How to fix
    Correct the sign of the loss, of the optimizer's `maximize`, or of the update.

When this verdict is wrong
    When something is meant to be maximised, as by an adversary; the trial decides.
"""

from __future__ import annotations

import math
import statistics

from lossleuth.causes.edits import minimised
from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    backward_place,
    decided_by_trial,
    finite,
    library_place,
    rule_place,
    schedule_place,
    update_place,
)
from lossleuth.findings.gradient import LogitGradient
from lossleuth.findings.update import Descent, UpdateLines
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# A little upwards, now and then, is the work of momentum.
MAX_COSINE = Limit(-0.05, "largest cosine with the way down that counts as going up")
MIN_BELOW_ZERO = Limit(
    1e-3, "share of the highest rate below 0 that is no rounding at a schedule's end"
)
MIN_STEPS_BELOW = Limit(4, "fewest steps with a rate below 0")
MIN_ERRORS = Limit(3.0, "standard errors by which the loss has to rise beyond that")
LAST_LOSSES = Limit(10, "losses before the first such step, and at the end, that are compared")
CURE = Change.of("scale_lr", factor=-1.0)


def judge(evidence: Evidence) -> Judgement:
    """Look at the rates, and at both signs on every recorded step."""
    below = _below_zero(evidence)
    if below is not None:
        return below
    steps = finite(descent.cosine for descent in evidence.all(Descent))
    logits = finite(gradient.cosine for gradient in evidence.all(LogitGradient))
    if not steps and not logits:
        return untested("no step with a gradient and an update was recorded")
    up = bool(steps) and max(steps) < MAX_COSINE
    negated = bool(logits) and max(logits) < MAX_COSINE
    if up == negated:
        return refuted(
            f"the update and the negative gradient have a cosine of {_shown(steps)}, the loss and "
            f"cross-entropy one of {_shown(logits)}; above 0 is down"
        )
    value = max(steps) if up else max(logits)
    what = "the update has a cosine with the negative gradient"
    if negated:
        what = "what is differentiated has a cosine with cross-entropy's gradient at the logits"
    because = f"On every recorded step {what} of {value:.3f} or less; it should be above 0."
    where = backward_place(evidence) if negated else library_place(evidence)
    fault = Judgement(
        Status.SUSPECTED,
        because,
        where or rule_place(evidence) or update_place(evidence),
        Wrongness("cosine with the way down", value, 1.0, 1e-6),
        remedy="Turn the sign of the loss or of the update around.",
    )
    return decided_by_trial(evidence, fault, [CURE])


def _below_zero(evidence: Evidence) -> Judgement | None:
    """Proven where the rate of every group comes to be below 0, and the loss rises from there on.

    What rises is the loss that is differentiated: updates up its gradient make it larger.
    """
    rated = [(s, s.rates or [s.lr]) for s in evidence.steps if s.lr is not None]
    peak = max((max(rates) for _, rates in rated), default=0.0)
    below = [s for s, rates in rated if max(rates) < -MIN_BELOW_ZERO * abs(peak)]
    # A loss that is negated, too, goes down by rates that are below 0 throughout.
    if len(below) < MIN_STEPS_BELOW or peak <= 0:
        return None
    first = below[0].step
    before = finite(s.loss for s in evidence.steps if s.step <= first)[-int(LAST_LOSSES) :]
    after = finite(s.loss for s in below)[-int(LAST_LOSSES) :]
    if len(before) < 2 or len(after) < 2:
        return None
    noise = math.hypot(*(statistics.stdev(x) / len(x) ** 0.5 for x in (before, after)))
    rise = statistics.fmean(after) - statistics.fmean(before)
    if not rise > MIN_EFFECT_NATS + MIN_ERRORS * noise:
        return None
    lowest = min(max(s.rates or [s.lr or 0.0]) for s in below)
    because = (
        f"The learning rate is below 0 in {len(below)} of {len(rated)} steps, the first at step "
        f"{first + 1} ({lowest:.3g} at the lowest), so that updates go up the gradient; it should "
        f"be above 0. The loss is {statistics.fmean(before):.3f} before and "
        f"{statistics.fmean(after):.3f} at the end."
    )
    return Judgement(
        Status.PROVEN,
        because,
        schedule_place(evidence),
        Wrongness("lowest learning rate", lowest, 0.0, 0.0),
        remedy="End the schedule at 0, and make it as long as the run.",
    )


def _shown(values: list[float]) -> str:
    return f"{max(values):.3f}" if values else "unknown"


CAUSE = Cause(
    "ascent",
    Stage.OPTIMIZER,
    "the update goes up the gradient",
    judge,
    uses=(Descent, LogitGradient, UpdateLines),
    limits=(MAX_COSINE, MIN_BELOW_ZERO, MIN_STEPS_BELOW, LAST_LOSSES, MIN_ERRORS, MIN_EFFECT_NATS),
    overlaps=("loss_disconnected", "update_rule_wrong", "wrong_backward"),
    fix=minimised,
)
