"""The teacher has dropout switched on.

What it means
    There is dropout in the teacher's forward pass: it was left in training mode.

Why training fails
    The target is different at each step. The student cannot follow it, and the distillation loss
    cannot fall below the noise.

How it is judged
    On recorded steps the teacher is run again without dropout: without dropout in it, the
    divergence between the two is exactly 0. Where it is not, the run is tried without dropout in
    what is not trained, over paired seeds: proven if the true loss is lower then, benign if not.

How to fix
    Call `teacher.eval()` once, and again after anything that calls `train()` on both.

When this verdict is wrong
    When noise in the teacher is intended, as in some ensembles by dropout.
"""

from __future__ import annotations

from lossleuth.causes.lessons import is_known, teacher_place, without_teacher
from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

CURE = Change.of("no_dropout", fixed=True)
MAX_ROUNDING = Limit(
    1e-9, "largest divergence, in nats, of a teacher from itself that rounding in float64 explains"
)


def judge(evidence: Evidence) -> Judgement:
    """Compare the teacher with itself without dropout."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = [(t, t.dropout) for t in evidence.all(Teaching) if is_known(t.dropout)]
    if not known:
        return untested("the teacher's scores could not be compared with the student's")
    largest = max(divergence for _, divergence in known)
    if largest <= MAX_ROUNDING:
        return refuted(
            f"without dropout the teacher predicts the same: divergence {largest:.1e} on "
            f"{len(known)} recorded steps"
        )
    what = "divergence of the teacher from itself without dropout"
    fault = Judgement(
        Status.SUSPECTED,
        f"The teacher has dropout switched on: its predictions diverge by {largest:.3f} nats from "
        "those of the same teacher without it; it should be 0.",
        teacher_place([teaching for teaching, _ in known]),
        Wrongness(what, largest, 0.0, float(MAX_ROUNDING)),
        remedy="Call `eval()` on the teacher.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "teacher_in_train_mode",
    Stage.DISTILLATION,
    "the teacher has dropout switched on",
    judge,
    uses=(Teaching,),
    limits=(MAX_ROUNDING, MIN_EFFECT_NATS),
)
