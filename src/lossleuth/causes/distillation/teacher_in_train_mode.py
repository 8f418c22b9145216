"""The teacher drops things at random while it teaches.

What it means
    There is dropout in the teacher's forward pass: it was left in training mode.

Why training fails
    The target is another one at each step. The student cannot follow it, and the distillation loss
    has a floor that is the noise.

How it is judged
    On recorded steps the teacher is done again with nothing dropped: the divergence between the two
    is exactly 0 if there is no dropout. Then it is tried to let nothing be dropped in what is not
    trained, over paired seeds: proven if the true loss is lower then, benign if not.

How to fix
    `teacher.eval()`, once, and after whatever calls `train()` on both.

When this verdict is wrong
    When noise in the teacher is meant, as in some ensembles by dropout.
"""

from __future__ import annotations

from lossleuth.causes.lessons import lessons, made_place, without_teacher
from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

CURE = Change.of("no_dropout", fixed=True)
# Divergence of a model from itself, done again in float64.
ROUNDING = 1e-9


def judge(evidence: Evidence) -> Judgement:
    """Compare the teacher with itself without dropout."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known = [found for found in lessons(evidence) if found.get("dropout") is not None]
    if not known:
        return untested("the teacher's scores could not be compared with the student's")
    most = max(float(found["dropout"]) for found in known)
    if most <= ROUNDING:
        return refuted(
            f"without dropout the teacher says the same: divergence {most:.1e} on {len(known)} "
            "recorded steps"
        )
    fault = Judgement(
        Status.SUSPECTED,
        f"The teacher's scores have dropout in them: they diverge by {most:.3f} nats from what "
        "the same teacher says without it; it should be 0.",
        made_place(known),
        Wrongness("divergence of the teacher from itself without dropout", most, 0.0, ROUNDING),
        remedy="Call `eval()` on the teacher.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "teacher_in_train_mode",
    Stage.DISTILLATION,
    "the teacher has dropout in it",
    judge,
    ("teaching",),
)
