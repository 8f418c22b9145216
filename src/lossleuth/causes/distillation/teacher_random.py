"""The teacher knows no more than somebody who guesses by frequency.

What it means
    The teacher's own loss on the text is no lower than that of guessing each token by how often it
    comes: its weights were never loaded, or only in part.

Why training fails
    The student imitates noise, and what labels teach it the noise takes away.

How it is judged
    On recorded steps, by the teacher's own cross-entropy on the student's targets at temperature 1,
    without dropout, against the entropy of the targets. Where there are labels too, it is tried to
    go without the teacher, over paired seeds: proven if the true loss is lower then. Where the
    teacher is all there is, its loss alone proves it.

How to fix
    Load the teacher's weights, and check its loss before it teaches.

When this verdict is wrong
    When the teacher knows another text than the one it is asked about. A teacher that learns while
    it teaches, such as an average of the student, is left out.
"""

from __future__ import annotations

from dataclasses import replace

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
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

CURE = Change.of("scale_lesson", factor=0.0)


def judge(evidence: Evidence) -> Judgement:
    """Compare the teacher's loss with that of guessing."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known, guessed = knowledge(evidence), guess(evidence)
    if not known:
        return no_knowledge(evidence)
    if guessed is None:
        return untested("how frequent each token is was not seen")
    best = min(known, key=lambda k: float(k["loss"]))
    if best["loss"] < guessed - 3 * best["error"]:
        return refuted(
            f"the teacher's own loss is {best['loss']:.3f}, that of guessing by frequency "
            f"{guessed:.3f}"
        )
    if any(knows_otherwise(k, guessed) for k in known):
        return refuted("the teacher knows the text at another place or under other names")
    given = [k["with_same_input"] for k in lessons(evidence) if k.get("with_same_input")]
    if given and min(k["loss"] for k in given) < guessed:
        return refuted("the teacher knows the text when it is shown what the student sees")
    fault = Judgement(
        Status.PROVEN,
        f"The teacher's own loss is {best['loss']:.3f} nats per token or more on {len(known)} "
        f"recorded steps; guessing each token by its frequency gives {guessed:.3f}.",
        _where(evidence),
        Wrongness("the teacher's own loss", float(best["loss"]), guessed, 3 * float(best["error"])),
        remedy="Load the teacher's weights, and check its own loss first.",
    )
    if not all(found["has_labels"] for found in lessons(evidence)):
        # Without labels the student learns what the teacher knows, which is nothing.
        return replace(fault, because=f"{fault.because} There is nothing else to learn from.")
    return decided_by_trial(evidence, fault, [CURE])


def _where(evidence: Evidence) -> Where | None:
    return made_place(lessons(evidence))


CAUSE = Cause(
    "teacher_random",
    Stage.DISTILLATION,
    "the teacher knows nothing of the text",
    judge,
    ("teaching",),
    overlaps=("teacher_trained", "teacher_weak"),
)
