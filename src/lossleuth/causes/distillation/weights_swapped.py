"""The mixing weight is on the wrong term, or the teacher's is 0.

What it means
    The loss has two terms, labels and teacher, and nearly all the weight is on the labels: the two
    weights were exchanged, or one of them never got its value.

Why training fails
    The student is trained as if there were no teacher, while the distillation loss is printed.

How it is judged
    On recorded steps, what multiplies the divergence and the cross-entropy of a position is
    measured, T² taken out. Where labels weigh several times as much, the two weights are exchanged
    over paired seeds: proven if the true loss is clearly lower then, benign if not.

How to fix
    Put the weight on the term that it is meant for.

When this verdict is wrong
    When the teacher was meant to have a small part; the number then says what that costs.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    Taught,
    is_divided_by_classes,
    is_weighed,
    lacks_square,
    lessons,
    mixed_place,
    without_teacher,
)
from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# How many times the labels outweigh the teacher before it is looked at; what has to be gained.
OUTWEIGHED, GAINED = 3.0, 0.05


def judge(evidence: Evidence) -> Judgement:
    """Compare the weights of both terms."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known = [found for found in lessons(evidence) if _is_measured(found)]
    if not known:
        if not any(found["has_labels"] for found in lessons(evidence)):
            return refuted("there are no labels that could have the teacher's weight")
        return untested("what multiplies the divergence and the labels could not be measured")
    if len(known) < 2:
        return untested("weights may change from step to step, and only one was recorded")
    last = known[-1]
    ratios = [_outweighed(found) for found in known]
    heat, labels = float(last["teacher_temperature"]), float(last["label_weight"])
    weight = float(last["weight"]) / heat**2
    told = f"a position's divergence weighs {weight:.3g}, T² apart, its cross-entropy {labels:.3g}"
    if min(ratios) < OUTWEIGHED:
        return refuted(told)
    if any(lacks_square(found) or is_divided_by_classes(found) for found in known):
        return refuted(f"{told}, which a missing factor explains")
    fault = Judgement(
        Status.SUSPECTED,
        f"The teacher has next to no say: {told}.",
        mixed_place(known),
        Wrongness("weight of the labels over that of the teacher", labels, weight, 1e-9),
        remedy="Exchange the weights of the two terms, or give the teacher one.",
    )
    change = Change.of("teach_by_reference", temperature=heat, weight=round(labels, 4))
    return decided_by_trial(evidence, fault, [change], least=GAINED)


def _is_measured(found: Taught) -> bool:
    silent = found["weight"] == 0 and found["label_weight"] and found["teacher_temperature"]
    return bool(silent) or is_weighed(found)


def _outweighed(found: Taught) -> float:
    """How many times as much the labels weigh."""
    weight = float(found["weight"]) / float(found["teacher_temperature"]) ** 2
    return float(found["label_weight"]) / weight if weight > 0 else float("inf")


CAUSE = Cause(
    "weights_swapped",
    Stage.DISTILLATION,
    "the mixing weight is on the wrong term, or 0",
    judge,
    ("teaching",),
    overlaps=("temperature_unscaled", "divergence_misused"),
)
