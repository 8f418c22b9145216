"""Teacher and student have different temperatures.

What it means
    The scores of one side are divided by a temperature before they are compared, those of the other
    by another one, or by none.

Why training fails
    The target is not the teacher's distribution but a flattened, or sharpened, copy of it: the
    student learns to be as unsure as a softened teacher.

How it is judged
    On recorded steps, the factor between the logits and the comparison is measured for both sides.
    Where they differ, the reference divergence with one temperature for both is tried over paired
    seeds: proven if the true loss is lower then, benign if not.

How to fix
    Divide both by the same temperature, and multiply the loss by its square.

When this verdict is wrong
    When the student is meant to be calibrated differently from its teacher.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    MAX_TEMPERATURE_GAP,
    compared_place,
    is_known,
    without_teacher,
)
from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Compare the temperatures of both sides."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = [(t, pair) for t in evidence.all(Teaching) if (pair := _temperatures(t)) is not None]
    if not known:
        return untested("a temperature is trained itself")
    last, (ours, theirs) = known[-1]
    if all(abs(one / other - 1) <= MAX_TEMPERATURE_GAP for _, (one, other) in known):
        return refuted(f"both have the same temperature, {ours:g}")
    what = "the student's temperature over the teacher's"
    fault = Judgement(
        Status.SUSPECTED,
        f"The student's scores are divided by {ours:g} before they are compared, the teacher's by "
        f"{theirs:g}.",
        compared_place([teaching for teaching, _ in known]),
        Wrongness(what, ours / theirs, 1.0, float(MAX_TEMPERATURE_GAP)),
        remedy=f"Divide both by the same temperature, {max(ours, theirs):g}.",
    )
    weight = last.weight if last.weight and last.weight > 0 else 1.0
    change = Change.of("teach_by_reference", temperature=max(ours, theirs), weight=round(weight, 4))
    return decided_by_trial(evidence, fault, [change])


def _temperatures(teaching: Teaching) -> tuple[float, float] | None:
    """The student's and the teacher's; None where one is no fixed number."""
    ours, theirs = teaching.student_temperature, teaching.teacher_temperature
    if not ours or not theirs:
        return None
    return (ours, theirs) if is_known(ours) and is_known(theirs) else None


CAUSE = Cause(
    "temperature_one_sided",
    Stage.DISTILLATION,
    "teacher and student have different temperatures",
    judge,
    uses=(Teaching,),
    limits=(MAX_TEMPERATURE_GAP, MIN_EFFECT_NATS),
    overlaps=("divergence_misused",),
)
