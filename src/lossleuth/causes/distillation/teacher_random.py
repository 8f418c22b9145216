"""The teacher is no better than guessing each token by its frequency.

What it means
    The teacher's own loss on the text is no lower than that of guessing each token by its
    frequency: its weights were never loaded, or only in part.

Why training fails
    The student imitates noise, which undoes what it learns from the labels.

How it is judged
    On recorded steps, by the teacher's own cross-entropy on the student's targets at temperature 1,
    without dropout, against the entropy of the targets. Where there are labels too, the run is
    tried without the teacher, over paired seeds: proven if the true loss is lower then. Where there
    are none, the teacher's loss alone proves it.

How to fix
    Load the teacher's weights, and check its loss before you distil.

When this verdict is wrong
    When the teacher was trained on another kind of text. A teacher that learns during the run, such
    as an average of the student, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

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
from lossleuth.findings.distillation import TeacherQuality, Teaching
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

CURE = Change.of("scale_lesson", factor=0.0)


def judge(evidence: Evidence) -> Judgement:
    """Compare the teacher's loss with that of guessing."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known, guessed = qualities(evidence), guessing_loss(evidence)
    if not known:
        return unknown_quality(evidence)
    if guessed is None:
        return untested("how frequent each token is was not seen")
    loss, error = _of_all_steps(known)
    if loss < guessed - STANDARD_ERRORS * error:
        return refuted(
            f"the teacher's own loss is {loss:.3f}, that of guessing by frequency {guessed:.3f}"
        )
    if any(better_match(quality, guessed) for quality in known):
        return refuted("the teacher fits the text at another position or with its classes renamed")
    teachings = evidence.all(Teaching)
    if _is_good_on_same_input(teachings, guessed):
        return refuted("the teacher fits the text when it gets the student's tokens")
    if loss < guessed:
        return untested(
            f"the teacher's own loss is {loss:.3f} ± {error:.3f}, that of guessing by frequency "
            f"{guessed:.3f}: it may be better than that, and it may be chance"
        )
    fault = Judgement(
        Status.PROVEN,
        f"The teacher's own loss is {loss:.3f} nats per token on {len(known)} recorded steps; "
        f"guessing each token by its frequency gives {guessed:.3f}.",
        teacher_place(teachings),
        Wrongness("the teacher's own loss", loss, guessed, STANDARD_ERRORS * error),
        remedy="Load the teacher's weights, and check its own loss first.",
    )
    if not all(teaching.has_labels for teaching in teachings):
        # Without labels the student can learn only what the teacher knows, which is nothing.
        return replace(fault, because=f"{fault.because} There is nothing else to learn from.")
    return decided_by_trial(evidence, fault, [CURE])


def _of_all_steps(known: Sequence[TeacherQuality]) -> tuple[float, float]:
    """The loss per token over all recorded steps, and its standard error."""
    tokens = sum(quality.tokens for quality in known)
    loss = sum(quality.tokens * quality.loss for quality in known) / tokens
    return loss, math.hypot(*(quality.tokens * quality.error for quality in known)) / tokens


def _is_good_on_same_input(teachings: list[Teaching], guessed: float) -> bool:
    given = [t.with_same_input.loss for t in teachings if t.with_same_input is not None]
    return any(is_known(loss) and loss < guessed for loss in given)


CAUSE = Cause(
    "teacher_random",
    Stage.DISTILLATION,
    "the teacher is no better than guessing",
    judge,
    uses=(Teaching,),
    limits=(STANDARD_ERRORS, MIN_LOSS_GAP, MIN_EFFECT_NATS),
    overlaps=("teacher_trained", "teacher_weak"),
)
