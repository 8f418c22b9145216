"""Teacher and student speak of different positions.

What it means
    The row of the teacher's scores that a row of the student's is compared with is of another
    position: one of the two was shifted and the other was not.

Why training fails
    Labels and teacher ask for different tokens at the same place. Their quarrel is the floor of
    both losses.

How it is judged
    On recorded steps, by the teacher's own loss: the rows it is compared with are scored on the
    targets of their own places and of the two before and after. Proven where another place explains
    clearly more, better than guessing by frequency does, on every recorded step.

How to fix
    Shift both or none, and slice both by the same positions.

When this verdict is wrong
    When the teacher is meant to look further ahead.
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
    """Score the teacher's rows on the targets around them."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known, guessed = knowledge(evidence), guess(evidence)
    known = [k for k in known if k["offsets"]]
    if not known:
        return no_knowledge(evidence)
    if guessed is None:
        return untested("how frequent each token is was not seen")
    best = [min(k["offsets"], key=lambda o: float(k["offsets"][o])) for k in known]
    shifted = [k for k in known if knows_otherwise(k, guessed) == "offset"]
    last = known[-1]
    if len(shifted) < len(known) or len(set(best)) > 1:
        return refuted(
            f"the teacher's loss is {last['offsets']['0']:.3f} at its own place, "
            f"{min(last['offsets'].values()):.3f} at the best of five around"
        )
    offset, there = int(best[-1]), float(last["offsets"][best[-1]])
    same_input = all(found["same_input"] in (None, 1.0) for found in lessons(evidence))
    shown = "" if same_input else " It is shown other tokens than the student."
    return Judgement(
        Status.PROVEN,
        f"The teacher's rows fit the targets {offset:+d} places away, with a loss of {there:.3f}; "
        f"at their own places it is {last['offsets']['0']:.3f}, and guessing by frequency gives "
        f"{guessed:.3f}.{shown}",
        compared_place(lessons(evidence)),
        Wrongness("offset of the teacher's rows", float(offset), 0.0, 0.0),
        remedy="Compare teacher and student at the same positions.",
    )


CAUSE = Cause(
    "teacher_offset",
    Stage.DISTILLATION,
    "teacher and student are compared at different positions",
    judge,
    ("teaching",),
    overlaps=("teacher_input_differs",),
)
