"""The divergence of softened scores is not multiplied with the square of the temperature.

What it means
    Softening by T makes the gradient of a divergence T² times smaller; the factor that makes up for
    it is missing.

Why training fails
    Beside labels the teacher has next to no say, and the more is softened the less.

How it is judged
    On recorded steps, what multiplies the divergence and the cross-entropy of a position is
    measured. Where the two add up to 1 at a temperature other than 1, or are both 1, no T² is among
    them. Then the lesson is given T² over paired seeds: proven if the true loss is lower then,
    benign if not.

How to fix
    Multiply the divergence with T².

When this verdict is wrong
    When weights were chosen with the missing factor in mind; then the trial is the judge of them.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    SOFT,
    compared_place,
    is_weighed,
    lacks_square,
    lessons,
    without_teacher,
)
from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """See whether the weights leave room for the square of the temperature."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known = [found for found in lessons(evidence) if is_weighed(found)]
    if not known:
        return untested("what multiplies the divergence and the labels could not be measured")
    last = known[-1]
    heat, weight, labels = (
        float(last[k]) for k in ("teacher_temperature", "weight", "label_weight")
    )
    told = f"{weight:.3g} for the divergence at temperature {heat:g}, {labels:.3g} for the labels"
    if heat < SOFT:
        return refuted(f"the temperature is {heat:g}, whose square changes little ({told})")
    if not all(lacks_square(found) for found in known):
        return refuted(f"the weights of a position have room for T² = {heat**2:g}: {told}")
    fault = Judgement(
        Status.SUSPECTED,
        f"The weights of a position are {told}: T² = {heat**2:g} is not among them.",
        compared_place(known),
        Wrongness("weight of the divergence over T²", weight / heat**2, weight, 1e-9),
        remedy=f"Multiply the divergence with T² = {heat**2:g}.",
    )
    return decided_by_trial(evidence, fault, [Change.of("scale_lesson", factor=heat**2)])


CAUSE = Cause(
    "temperature_unscaled",
    Stage.DISTILLATION,
    "the divergence lacks the square of the temperature",
    judge,
    ("teaching",),
    overlaps=("weights_swapped",),
)
