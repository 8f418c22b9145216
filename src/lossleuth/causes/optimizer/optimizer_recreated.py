"""The optimizer loses its memory while the run goes on.

What it means
    The optimizer is made anew in the loop, or its state is cleared: the means of past gradients
    start from nothing again and again.

Why training fails
    After each fresh start Adam's first update has the full size for every weight, whatever its
    gradient is: without a mean, it follows the sign of one noisy gradient.

How it is judged
    Adam's state counts its updates. A count that falls back while the same weights are trained on
    is a memory that was lost. Whether it matters is tried: the same run, where the update is made
    by the textbook's rule with the program's own settings and a memory that lasts.

How to fix
    Make the optimizer once, before the loop, and change its rate in its groups.

When this verdict is wrong
    When a fresh start is wanted, as at the beginning of a new part of the training; the trial
    decides.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial, optimizer_place
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_STEPS = Limit(8, "fewest steps at which the optimizer's count of updates is known")
MIN_TIMES = Limit(2, "fewest times that it has to fall back", "a run may be loaded once")
MIN_WEIGHTS = Limit(0.5, "least share of the updated weights whose count has fallen back")
CURES = (Change.of("use_rule", rule="AdamW"), Change.of("use_rule", rule="Adam"))


def judge(evidence: Evidence) -> Judgement:
    """Count how often the optimizer's memory begins again."""
    known, again = _begun_again(evidence)
    if known < MIN_STEPS:
        return untested(f"the optimizer's count of updates is known at {known} steps only")
    if len(again) < MIN_TIMES:
        return refuted(f"the optimizer's memory began again at {len(again)} of {known} steps")
    fault = Judgement(
        Status.SUSPECTED,
        f"The optimizer's memory begins again at {len(again)} of {known} steps, the first time at "
        f"step {again[0]}; it should at 0.",
        optimizer_place(evidence),
        Wrongness("steps at which the optimizer's memory begins again", len(again), 0.0, 0.0),
        remedy="Make the optimizer once, before the loop.",
    )
    return decided_by_trial(evidence, fault, CURES)


def _begun_again(evidence: Evidence) -> tuple[int, list[int]]:
    """Steps at which counts of updates are known, and those where most of them have fallen back."""
    readings = evidence.readings
    rows = zip(evidence.steps, readings.age, readings.update_rms, strict=False)
    known, again, before = 0, list[int](), dict[int, float]()
    for step, ages, updates in rows:
        counts = {i: age for i, age in enumerate(ages) if math.isfinite(age)}
        known += bool(counts)
        # A weight that was not updated keeps its count.
        moved = [i for i in counts if updates[i] > 0 and i in before]
        fallen = [i for i in moved if counts[i] < before[i] or counts[i] == before[i] == 1]
        if moved and len(fallen) >= MIN_WEIGHTS * len(moved):
            again.append(step.step)
        before |= counts
    return known, again


CAUSE = Cause(
    "optimizer_recreated",
    Stage.OPTIMIZER,
    "the optimizer loses its memory again and again",
    judge,
    limits=(MIN_STEPS, MIN_TIMES, MIN_WEIGHTS, MIN_EFFECT_NATS),
    overlaps=("lr_too_high", "update_rule_wrong"),
)
