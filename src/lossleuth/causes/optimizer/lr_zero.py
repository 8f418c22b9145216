"""The learning rate is 0.

What it means
    Settings or a schedule give a rate of 0 in all or nearly all steps: a warm-up that never rises,
    a decay that is over before it begins, an integer division.

Why training fails
    Updates are made, and nothing changes.

How it is judged
    The rate of every group in every step, as the optimizer has it at that moment. Proven by that
    alone if it is 0 in nearly all steps. A rate that comes to 0 after some steps, and stays there,
    is that of a schedule that is too fast.

How to fix
    Print the rate; look at the schedule's arguments and at when it is stepped.

When this verdict is wrong
    When only the first step of a warm-up was observed.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import schedule_place, share
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_ZERO_SHARE = Limit(0.9, "least share of steps with a rate of 0")
MIN_STEPS = Limit(8, "fewest steps with a learning rate")


def judge(evidence: Evidence) -> Judgement:
    """Count steps whose rate is 0 in every group."""
    rated = [step.rates or [step.lr] for step in evidence.steps if step.lr is not None]
    if len(rated) < MIN_STEPS:
        return untested(f"only {len(rated)} steps with a learning rate were seen")
    zero = [rates for rates in rated if not any(rates)]
    part = share(len(zero), len(rated))
    if part < MIN_ZERO_SHARE:
        highest = max(max(rates) for rates in rated)
        return refuted(f"the rate is 0 in {len(zero)} of {len(rated)} steps, {highest:.3g} at most")
    last = max((i for i, rates in enumerate(rated) if any(rates)), default=-1)
    after = len(rated) - 1 - last
    if len(rated) - len(zero) >= MIN_STEPS and after >= MIN_ZERO_SHARE * len(zero):
        return refuted(f"the rate is 0 from step {last + 2} on: see schedule_too_fast")
    because = f"The learning rate is 0 in {len(zero)} of {len(rated)} steps; it should be above 0."
    return Judgement(
        Status.PROVEN,
        because,
        schedule_place(evidence),
        Wrongness("share of steps with a rate of 0", part, 0.0, 0.0),
        remedy="Correct the schedule or the setting that gives 0.",
    )


CAUSE = Cause(
    "lr_zero",
    Stage.OPTIMIZER,
    "the learning rate is 0",
    judge,
    limits=(MIN_ZERO_SHARE, MIN_STEPS),
    overlaps=("schedule_too_fast", "lr_too_low"),
    voids_trials=True,
)
