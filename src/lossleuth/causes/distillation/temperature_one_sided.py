"""Only one of teacher and student is softened.

What it means
    The scores of one side are divided by a temperature before they are compared, those of the other
    by another one, or by none.

Why training fails
    The goal is not what the teacher says but a flattened, or sharpened, copy of it: the student
    learns to be as unsure as a softened teacher.

How it is judged
    The factors between logits and comparison are read off the recorded step for both sides. Where
    they differ, the reference at one temperature for both is tried over paired seeds: proven if
    the true loss is lower then, benign if not.

How to fix
    Divide both by the same temperature, and multiply the loss by its square.

When this verdict is wrong
    When the student is meant to be calibrated differently from its teacher.
"""

from __future__ import annotations

from lossleuth.causes.lessons import compared_place, lessons, without_teacher
from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# Temperatures that differ by more than rounding.
SAME = 1e-3


def judge(evidence: Evidence) -> Judgement:
    """Compare what both sides are divided by."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known = [
        found
        for found in lessons(evidence)
        if found["student_temperature"] and found["teacher_temperature"]
    ]
    if not known:
        return untested("a temperature is trained itself")
    last = known[-1]
    ours, theirs = float(last["student_temperature"]), float(last["teacher_temperature"])
    if all(
        abs(found["student_temperature"] / found["teacher_temperature"] - 1) <= SAME
        for found in known
    ):
        return refuted(f"both are softened by the same temperature, {ours:g}")
    fault = Judgement(
        Status.SUSPECTED,
        f"The student's scores are divided by {ours:g} before they are compared, the teacher's by "
        f"{theirs:g}.",
        compared_place(known),
        Wrongness("the student's temperature over the teacher's", ours / theirs, 1.0, SAME),
        remedy=f"Divide both by the same temperature, {max(ours, theirs):g}.",
    )
    weight = last["weight"] if last["weight"] and last["weight"] > 0 else 1.0
    change = Change.of(
        "teach_by_reference", temperature=max(ours, theirs), weight=round(float(weight), 4)
    )
    return decided_by_trial(evidence, fault, [change])


CAUSE = Cause(
    "temperature_one_sided",
    Stage.DISTILLATION,
    "only one of teacher and student is softened",
    judge,
    ("teaching",),
    overlaps=("divergence_misused",),
)
