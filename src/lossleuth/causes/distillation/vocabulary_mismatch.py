"""The teacher's classes stand for other tokens than the student's.

What it means
    The same id stands for different tokens in the two vocabularies, or a map between them is wrong.

Why training fails
    The student learns, with confidence, to predict the wrong tokens.

How it is judged
    On recorded steps, by the teacher's own loss on the student's targets. It is worse than guessing
    by frequency. But with the classes renamed in the way that fits every other row best, its loss
    on the remaining rows is clearly better than guessing: the teacher knows the text under other
    ids. Proven by that.

How to fix
    Map classes by the text of their tokens, and refuse to distil where the texts differ.

When this verdict is wrong
    With very few rows for the number of classes; then it is not judged.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    MIN_LOSS_GAP,
    STANDARD_ERRORS,
    better_match,
    compared_place,
    guessing_loss,
    qualities,
    unknown_quality,
    without_teacher,
)
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """See whether the teacher fits the text with its classes renamed."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known, guessed = qualities(evidence), guessing_loss(evidence)
    if not known:
        return unknown_quality(evidence)
    if guessed is None:
        return untested("how frequent each token is was not seen")
    last = known[-1]
    if last.loss < guessed:
        return refuted(
            f"under their own ids, the teacher's classes give a loss of {last.loss:.3f}; guessing "
            f"by frequency gives {guessed:.3f}"
        )
    matched = [
        (quality.loss, quality.renamed, quality.renamed_error or 0.0)
        for quality in known
        if quality.renamed is not None and better_match(quality, guessed) == "renamed"
    ]
    if not matched:
        if last.renamed is None:
            return untested("too few rows for the number of classes")
        return refuted(
            f"renamed in the way that fits best, the teacher's classes give a loss of "
            f"{last.renamed:.3f}; guessing by frequency gives {guessed:.3f}"
        )
    loss, renamed, error = matched[-1]
    what = "the teacher's loss over that of its classes renamed"
    return Judgement(
        Status.PROVEN,
        f"The teacher's loss on the student's targets is {loss:.3f}, and {renamed:.3f} ± "
        f"{error:.3f} once its classes are renamed, as chosen on other rows; guessing by frequency "
        f"gives {guessed:.3f}. The teacher knows the text under other ids.",
        compared_place(evidence.all(Teaching)),
        Wrongness(what, loss - renamed, 0.0, STANDARD_ERRORS * error),
        remedy="Map the teacher's classes to the student's by the text of their tokens.",
    )


CAUSE = Cause(
    "vocabulary_mismatch",
    Stage.DISTILLATION,
    "the teacher's classes stand for other tokens than the student's",
    judge,
    uses=(Teaching,),
    limits=(MIN_LOSS_GAP, STANDARD_ERRORS),
    overlaps=("teacher_random", "divergence_misused"),
    by_recorded_steps=True,
)
