"""The teacher is worse than its student.

What it means
    On the same tokens, the teacher's own loss is higher than the student's by more than chance, and
    the teacher does not improve during the run.

Why training fails
    The teacher holds the student back: it pulls the student away from what the labels teach.

How it is judged
    On recorded steps, token by token, the difference of the two losses at temperature 1 against its
    standard error. Then the run is tried without the teacher, over paired seeds: proven if the true
    loss is lower then, benign if not.

How to fix
    Use a better teacher, or lower its weight as the student overtakes it.

When this verdict is wrong
    When the teacher is meant to keep the student close to what it was, as in continued training.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    MIN_LOSS_GAP,
    STANDARD_ERRORS,
    better_match,
    guessing_loss,
    is_known,
    qualities,
    teacher_place,
    unknown_quality,
    without_teacher,
)
from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted

CURE = Change.of("scale_lesson", factor=0.0)


def judge(evidence: Evidence) -> Judgement:
    """Compare the teacher's loss with the student's, token by token."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = [quality for quality in qualities(evidence) if is_known(quality.behind)]
    if not known:
        return unknown_quality(evidence)
    first, last = known[0], known[-1]
    behind_error = STANDARD_ERRORS * last.behind_error
    if last.behind <= behind_error:
        return refuted(
            f"on the last recorded step the teacher's loss is {last.loss:.3f}, "
            f"{-last.behind:+.3f} ± {last.behind_error:.3f} better than the student's"
        )
    error = STANDARD_ERRORS * (first.error**2 + last.error**2) ** 0.5
    if len(known) > 1 and first.loss - last.loss > error:
        return refuted(
            f"the teacher improves during the run: its loss went from {first.loss:.3f} to "
            f"{last.loss:.3f}"
        )
    best, guessed = min(known, key=lambda quality: quality.loss), guessing_loss(evidence)
    if guessed is not None and (
        best.loss >= guessed - STANDARD_ERRORS * best.error or better_match(last, guessed)
    ):
        return refuted("the teacher does not fit the targets at all, which is another fault")
    teachings = evidence.all(Teaching)
    if not all(teaching.has_labels for teaching in teachings):
        return refuted("without labels the student has no other source to learn from")
    fault = Judgement(
        Status.SUSPECTED,
        f"The teacher's loss is {last.loss:.3f}, {last.behind:.3f} ± {last.behind_error:.3f} worse "
        f"than the student's on the same {last.tokens} tokens.",
        teacher_place(teachings),
        Wrongness("teacher's loss over the student's", last.behind, 0.0, behind_error),
        remedy="Use a better teacher, or lower its weight.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "teacher_weak",
    Stage.DISTILLATION,
    "the teacher is worse than the student",
    judge,
    uses=(Teaching,),
    limits=(STANDARD_ERRORS, MIN_LOSS_GAP, MIN_EFFECT_NATS),
    overlaps=("teacher_random", "teacher_trained"),
    relies_on=("lookups",),
)
