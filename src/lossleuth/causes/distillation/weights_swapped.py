"""The mixing weight is on the wrong term, or the teacher's is 0.

What it means
    The loss has two terms, labels and teacher, and nearly all the weight is on the labels: the two
    weights were exchanged, or one of them never got its value.

Why training fails
    The student is trained as if there were no teacher, while the distillation loss is printed.

How it is judged
    On recorded steps, the weights of a position's divergence, without T², and of its cross-entropy
    are measured. Where the labels weigh several times as much, the two weights are exchanged over
    paired seeds: proven if the true loss is clearly lower then, benign if not.

How to fix
    Put the weight on the term that it is meant for.

When this verdict is wrong
    When the teacher was meant to have a small weight; then the number says what that costs.
"""

from __future__ import annotations

import math

from lossleuth.causes.lessons import (
    MAX_DISTANCE_FROM_ONE,
    MAX_RELATIVE_WEIGHT,
    MIN_RELATIVE_WEIGHT,
    MIN_SQUARED_TEMPERATURE,
    MIN_WEIGHT_FIT,
    Weights,
    is_divided_by_classes,
    is_known,
    lacks_square,
    mixed_place,
    weights,
    without_teacher,
)
from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_WEIGHT_RATIO = Limit(
    3, "least weight of the labels, as a multiple of the teacher's, that is looked into"
)
MIN_STEPS = Limit(2, "fewest recorded steps, since weights may follow a schedule")


def judge(evidence: Evidence) -> Judgement:
    """Compare the weights of both terms."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    teachings = evidence.all(Teaching)
    known = [(t, pair) for t in teachings if (pair := _weights(t)) is not None]
    if not known:
        if not any(teaching.has_labels for teaching in teachings):
            return refuted("there are no labels that could have the teacher's weight")
        return untested("the weights of the divergence and of the labels could not be measured")
    if len(known) < MIN_STEPS:
        return untested("weights may change from step to step, and only one was recorded")
    measured = [pair for _, pair in known]
    last = measured[-1]
    weight = _without_square(last)
    both = (
        f"the weight of a position's divergence is {weight:.3g} without T², that of its "
        f"cross-entropy {last.labels:.3g}"
    )
    if min(map(_ratio, measured)) < MIN_WEIGHT_RATIO:
        return refuted(both)
    if any(lacks_square(w) or is_divided_by_classes(w) for w in measured):
        return refuted(f"{both}, which a missing factor explains")
    what = "weight of the labels over that of the teacher"
    fault = Judgement(
        Status.SUSPECTED,
        f"The teacher hardly counts: {both}.",
        mixed_place([teaching for teaching, _ in known]),
        Wrongness(what, last.labels, weight, 1e-9),
        remedy="Exchange the weights of the two terms, or give the teacher one.",
    )
    change = Change.of(
        "teach_by_reference", temperature=last.temperature, weight=round(last.labels, 4)
    )
    return decided_by_trial(evidence, fault, [change])


def _weights(teaching: Teaching) -> Weights | None:
    """The weights, also where that of the divergence is 0."""
    labels, temperature = teaching.label_weight, teaching.teacher_temperature
    if teaching.weight == 0 and labels and temperature and is_known(labels):
        return Weights(0.0, labels, temperature, teaching.classes, teaching.micro_batches)
    return weights(teaching)


def _without_square(found: Weights) -> float:
    return found.divergence / found.temperature**2


def _ratio(found: Weights) -> float:
    """How many times as much the labels weigh."""
    weight = _without_square(found)
    return found.labels / weight if weight > 0 else math.inf


CAUSE = Cause(
    "weights_swapped",
    Stage.DISTILLATION,
    "the mixing weight is on the wrong term, or 0",
    judge,
    uses=(Teaching,),
    limits=(
        MIN_WEIGHT_RATIO,
        MIN_STEPS,
        MIN_EFFECT_NATS,
        MIN_SQUARED_TEMPERATURE,
        MAX_DISTANCE_FROM_ONE,
        MIN_RELATIVE_WEIGHT,
        MAX_RELATIVE_WEIGHT,
        MIN_WEIGHT_FIT,
    ),
    overlaps=("temperature_unscaled", "divergence_misused"),
)
