"""The teacher is worse than the student it teaches.

What it means
    On the same tokens, the teacher's own loss is higher than the student's by more than chance, and
    it does not learn along.

Why training fails
    The student is held back: what it has learnt from labels, the teacher pulls away from.

How it is judged
    On recorded steps, token by token, the difference of the two losses at temperature 1 against its
    standard error. Then it is tried to go without the teacher, over paired seeds: proven if the
    true loss is lower then, benign if it makes no difference.

How to fix
    Take a better teacher, or let its weight fall as the student overtakes it.

When this verdict is wrong
    When the teacher is meant to hold the student near to what it was, as in continued training.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    guess,
    knowledge,
    knows_otherwise,
    lessons,
    made_place,
    no_knowledge,
    without_teacher,
)
from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted

CURE = Change.of("scale_lesson", factor=0.0)


def judge(evidence: Evidence) -> Judgement:
    """Compare the teacher's loss with the student's, token by token."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known, guessed = knowledge(evidence), guess(evidence)
    if not known:
        return no_knowledge(evidence)
    first, last = known[0], known[-1]
    if last["behind"] <= 3 * last["behind_error"]:
        return refuted(
            f"on the last recorded step the teacher's loss is {last['loss']:.3f}, "
            f"{-last['behind']:+.3f} ± {last['behind_error']:.3f} better than the student's"
        )
    error = 3 * (first["error"] ** 2 + last["error"] ** 2) ** 0.5
    if len(known) > 1 and first["loss"] - last["loss"] > error:
        return refuted(
            f"the teacher learns along: its loss went from {first['loss']:.3f} to "
            f"{last['loss']:.3f}"
        )
    best = min(known, key=lambda k: float(k["loss"]))
    if guessed is not None and (
        best["loss"] >= guessed - 3 * best["error"] or knows_otherwise(last, guessed)
    ):
        return refuted("the teacher knows nothing of what it is asked, which is another fault")
    if not all(found["has_labels"] for found in lessons(evidence)):
        return refuted("the student has no other source to be better by")
    fault = Judgement(
        Status.SUSPECTED,
        f"The teacher's loss is {last['loss']:.3f}, {last['behind']:.3f} ± "
        f"{last['behind_error']:.3f} worse than the student's on the same {last['tokens']} tokens.",
        made_place(lessons(evidence)),
        Wrongness(
            "teacher's loss over the student's", last["behind"], 0.0, 3 * last["behind_error"]
        ),
        remedy="Take a better teacher, or lower its weight.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "teacher_weak",
    Stage.DISTILLATION,
    "the teacher is worse than the student",
    judge,
    ("teaching",),
    overlaps=("teacher_random", "teacher_trained"),
)
