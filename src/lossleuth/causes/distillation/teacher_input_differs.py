"""The teacher is shown other tokens than the student.

What it means
    What the teacher looks up is not what the student looks up: another order, another truncation,
    another side of the padding, another tokenizer's numbers.

Why training fails
    The teacher answers another question, and its answers are noise to the student.

How it is judged
    On recorded steps the tokens of both are compared. Where they differ, the teacher is done again
    with the student's tokens: proven where its own loss on the targets is clearly lower then, so
    that it would have known.

How to fix
    Give both the same tensor.

When this verdict is wrong
    When the teacher is meant to see more than the student, such as a longer prompt. Inputs of
    another length are not judged.
"""

from __future__ import annotations

from lossleuth.causes.lessons import NOTABLE, lessons, made_place, without_teacher
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Compare what both look up, and let the teacher see what the student sees."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known = [found for found in lessons(evidence) if found.get("same_input") is not None]
    if not known:
        return untested("the teacher's tokens were not seen, or are of another length")
    least = min(known, key=lambda found: float(found["same_input"]))
    if least["same_input"] == 1:
        return refuted(f"both look up the same tokens on {len(known)} recorded steps")
    asked = [f for f in known if f.get("knowledge") and f.get("with_same_input")]
    if not asked:
        return untested("what the teacher would say of the student's tokens is not known")
    found = asked[-1]
    given, right = found["knowledge"], found["with_same_input"]
    gained = given["loss"] - right["loss"]
    floor = NOTABLE + 3 * (given["error"] ** 2 + right["error"] ** 2) ** 0.5
    if gained <= floor:
        return refuted(
            f"the teacher sees {1 - least['same_input']:.0%} other tokens, and would not know "
            f"more with the student's: loss {given['loss']:.3f}, then {right['loss']:.3f}"
        )
    return Judgement(
        Status.PROVEN,
        f"{1 - found['same_input']:.0%} of the teacher's tokens are not the student's. Its loss on "
        f"the targets is {given['loss']:.3f}; shown the student's tokens it is "
        f"{right['loss']:.3f}.",
        made_place(known),
        Wrongness("share of tokens that both see", float(found["same_input"]), 1.0, 0.0),
        remedy="Give teacher and student the same tokens.",
    )


CAUSE = Cause(
    "teacher_input_differs",
    Stage.DISTILLATION,
    "the teacher sees other tokens than the student",
    judge,
    ("teaching",),
    overlaps=("teacher_offset", "teacher_random"),
)
