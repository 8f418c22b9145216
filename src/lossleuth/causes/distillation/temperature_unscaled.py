"""The divergence is not multiplied by the square of the temperature.

What it means
    A temperature T makes the gradient of a divergence T² times smaller; the factor that makes up
    for it is missing.

Why training fails
    Beside the labels the teacher hardly counts, and the higher the temperature the less.

How it is judged
    On recorded steps, the weights of a position's divergence and of its cross-entropy are measured.
    Where they add up to 1 at a temperature other than 1, or are both 1, T² is not among them. Then
    the distillation loss is multiplied by T² over paired seeds: proven if the true loss is lower
    then, benign if not.

How to fix
    Multiply the divergence by T².

When this verdict is wrong
    When the weights were chosen with the missing factor in mind; then the trial decides.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    MAX_DISTANCE_FROM_ONE,
    MIN_SQUARED_TEMPERATURE,
    MIN_WEIGHT_FIT,
    compared_place,
    lacks_square,
    weights,
    without_teacher,
)
from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """See whether the weights leave room for the square of the temperature."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = [(t, found) for t in evidence.all(Teaching) if (found := weights(t)) is not None]
    if not known:
        return untested("the weights of the divergence and of the labels could not be measured")
    _, last = known[-1]
    square = last.temperature**2
    measured = (
        f"{last.divergence:.3g} for the divergence at temperature {last.temperature:g}, "
        f"{last.labels:.3g} for the labels"
    )
    if last.temperature < MIN_SQUARED_TEMPERATURE:
        return refuted(
            f"the temperature is {last.temperature:g}, whose square changes little ({measured})"
        )
    if not all(lacks_square(found) for _, found in known):
        return refuted(f"the weights of a position have room for T² = {square:g}: {measured}")
    what = "weight of the divergence over T²"
    fault = Judgement(
        Status.SUSPECTED,
        f"The weights of a position are {measured}: T² = {square:g} is not among them.",
        compared_place([teaching for teaching, _ in known]),
        Wrongness(what, last.divergence / square, last.divergence, 1e-9),
        remedy=f"Multiply the divergence by T² = {square:g}.",
    )
    return decided_by_trial(evidence, fault, [Change.of("scale_lesson", factor=square)])


CAUSE = Cause(
    "temperature_unscaled",
    Stage.DISTILLATION,
    "the divergence lacks the square of the temperature",
    judge,
    uses=(Teaching,),
    limits=(MIN_SQUARED_TEMPERATURE, MAX_DISTANCE_FROM_ONE, MIN_WEIGHT_FIT, MIN_EFFECT_NATS),
    overlaps=("weights_swapped",),
)
