"""The teacher's classes are other tokens than the student's.

What it means
    The same number stands for different tokens in the two vocabularies, or a map between them is
    wrong.

Why training fails
    The student is told, with confidence, the wrong tokens.

How it is judged
    On recorded steps, by the teacher's own loss on the student's targets. It is worse than guessing
    by frequency; but with the classes renamed as fits every other row best, its loss on the rows
    between is clearly better than guessing: the knowledge is there, under other names. Proven by
    that.

How to fix
    Map classes by the text of their tokens, and refuse to distil where texts differ.

When this verdict is wrong
    With very few rows against the number of classes; then it is not judged.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    compared_place,
    guess,
    knowledge,
    knows_otherwise,
    lessons,
    no_knowledge,
    without_teacher,
)
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Look for the teacher's knowledge under other names."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known, guessed = knowledge(evidence), guess(evidence)
    if not known:
        return no_knowledge(evidence)
    if guessed is None:
        return untested("how frequent each token is was not seen")
    last = known[-1]
    if last["loss"] < guessed:
        return refuted(
            f"under the names they have, the teacher's classes give a loss of {last['loss']:.3f}; "
            f"guessing by frequency gives {guessed:.3f}"
        )
    found = [k for k in known if knows_otherwise(k, guessed) == "renamed"]
    if not found:
        if last["renamed"] is None:
            return untested("too few rows for the number of classes")
        return refuted(
            f"renamed as fits best, the teacher's classes give a loss of {last['renamed']:.3f}; "
            f"guessing by frequency gives {guessed:.3f}"
        )
    told = found[-1]
    return Judgement(
        Status.PROVEN,
        f"The teacher's loss on the student's targets is {told['loss']:.3f}, and "
        f"{told['renamed']:.3f} ± {told['renamed_error']:.3f} once its classes are renamed by "
        f"other rows; guessing by frequency gives {guessed:.3f}. It knows the text under other "
        "numbers.",
        compared_place(lessons(evidence)),
        Wrongness(
            "the teacher's loss over that of its classes renamed",
            told["loss"] - told["renamed"],
            0.0,
            3 * told["renamed_error"],
        ),
        remedy="Map the teacher's classes to the student's by the text of their tokens.",
    )


CAUSE = Cause(
    "vocabulary_mismatch",
    Stage.DISTILLATION,
    "the teacher's classes are other tokens than the student's",
    judge,
    ("teaching",),
    overlaps=("teacher_random", "divergence_misused"),
)
