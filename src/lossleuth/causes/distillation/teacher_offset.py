"""Teacher and student are compared at different positions.

What it means
    The student's prediction for a position is compared with the teacher's for another one: one of
    the two was shifted and the other was not.

Why training fails
    Labels and teacher ask for different tokens at the same position. The student can follow only
    one of them, and neither loss can fall below what that costs.

How it is judged
    On recorded steps, by the teacher's own loss: its rows are scored on the targets of their own
    positions and of the two before and after. Proven where another position fits clearly better,
    also than guessing by frequency, on every recorded step.

How to fix
    Shift both or none, and slice both by the same positions.

When this verdict is wrong
    When the teacher is meant to predict further ahead.
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
    """Score the teacher's rows on the targets around them."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = [quality for quality in qualities(evidence) if quality.offsets]
    if not known:
        return unknown_quality(evidence)
    guessed = guessing_loss(evidence)
    if guessed is None:
        return untested("how frequent each token is was not seen")
    best = [_best_offset(quality.offsets) for quality in known]
    shifted = [quality for quality in known if better_match(quality, guessed) == "offset"]
    offsets = known[-1].offsets
    if len(shifted) < len(known) or len(set(best)) > 1:
        return refuted(
            f"the teacher's loss is {offsets['0']:.3f} at its own position, "
            f"{min(offsets.values()):.3f} at the best of five around it"
        )
    offset, there = int(best[-1]), offsets[best[-1]]
    teachings = evidence.all(Teaching)
    same_input = all(teaching.same_input in (None, 1.0) for teaching in teachings)
    differs = "" if same_input else " It also gets other tokens than the student."
    return Judgement(
        Status.PROVEN,
        f"The teacher's rows fit the targets {offset:+d} positions away, with a loss of "
        f"{there:.3f}; at their own positions it is {offsets['0']:.3f}, and guessing by frequency "
        f"gives {guessed:.3f}.{differs}",
        compared_place(teachings),
        Wrongness("offset of the teacher's rows", float(offset), 0.0, 0.0),
        remedy="Compare teacher and student at the same positions.",
    )


def _best_offset(losses: dict[str, float]) -> str:
    return min(losses, key=lambda offset: losses[offset])


CAUSE = Cause(
    "teacher_offset",
    Stage.DISTILLATION,
    "teacher and student are compared at different positions",
    judge,
    uses=(Teaching,),
    limits=(MIN_LOSS_GAP, STANDARD_ERRORS),
    overlaps=("teacher_input_differs",),
    by_recorded_steps=True,
)
