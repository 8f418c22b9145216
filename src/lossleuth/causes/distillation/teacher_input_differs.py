"""The teacher gets other tokens than the student.

What it means
    The input tokens of the teacher are not those of the student: another order, another truncation,
    padding on the other side, or the ids of another tokenizer.

Why training fails
    The teacher predicts the continuation of another text, and its predictions are noise to the
    student.

How it is judged
    On recorded steps the tokens of both are compared. Where they differ, the teacher is run again
    on the student's tokens. Proven where its own loss on the targets is clearly lower then.

How to fix
    Give both the same tensor.

When this verdict is wrong
    When the teacher is meant to see more than the student, such as a longer prompt. Inputs of
    different length are not judged.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    MIN_LOSS_GAP,
    STANDARD_ERRORS,
    is_known,
    teacher_place,
    without_teacher,
)
from lossleuth.findings.distillation import TeacherQuality, Teaching
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Compare the tokens of both, and the teacher's loss on its own and on the student's."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = [(t, t.same_input) for t in evidence.all(Teaching) if is_known(t.same_input)]
    if not known:
        return untested("the teacher's tokens were not seen, or are of another length")
    smallest = min(same for _, same in known)
    if smallest == 1:
        return refuted(f"both get the same tokens on {len(known)} recorded steps")
    compared = [(same, *pair) for t, same in known if (pair := _qualities(t)) is not None]
    if not compared:
        return untested("the teacher's loss on the student's tokens is not known")
    same, given, right = compared[-1]
    margin = MIN_LOSS_GAP + STANDARD_ERRORS * (given.error**2 + right.error**2) ** 0.5
    if given.loss - right.loss <= margin:
        return refuted(
            f"{1 - smallest:.0%} of the teacher's tokens are not the student's, but with these it "
            f"is not better: loss {given.loss:.3f}, then {right.loss:.3f}"
        )
    return Judgement(
        Status.PROVEN,
        f"{1 - same:.0%} of the teacher's tokens are not the student's. Its loss on the targets is "
        f"{given.loss:.3f}; on the student's tokens it is {right.loss:.3f}.",
        teacher_place([teaching for teaching, _ in known]),
        Wrongness("share of tokens that both get", same, 1.0, 0.0),
        remedy="Give teacher and student the same tokens.",
    )


def _qualities(teaching: Teaching) -> tuple[TeacherQuality, TeacherQuality] | None:
    """How good the teacher is on its own tokens, and on the student's."""
    given, right = teaching.knowledge, teaching.with_same_input
    if given is None or right is None:
        return None
    return (given, right) if is_known(given.loss) and is_known(right.loss) else None


CAUSE = Cause(
    "teacher_input_differs",
    Stage.DISTILLATION,
    "the teacher gets other tokens than the student",
    judge,
    uses=(Teaching,),
    limits=(MIN_LOSS_GAP, STANDARD_ERRORS),
    overlaps=("teacher_offset", "teacher_random"),
    by_recorded_steps=True,
)
