"""The teacher, or a layer after it, is trained together with the student.

What it means
    The teacher, or a projector between it and the target, is part of the graph that is
    differentiated, and its parameters are trained with the student.

Why training fails
    The distance between two moving models can be closed from either side. The target moves towards
    the student, the distillation loss falls, and the student learns nothing from the teacher.

How it is judged
    On recorded steps, by data flow: the share of the squared gradient that goes into parameters
    that only the target depends on. It is exactly 0 for a fixed target. Proven by that alone.

How to fix
    Compute the target under `torch.no_grad()` or detach it, and keep its parameters out of the
    optimizer. A layer that has to be learnt between two models belongs on the student's side.

When this verdict is wrong
    When two models are meant to learn from each other. Peers that both have labels of their own are
    left out.
"""

from __future__ import annotations

from lossleuth.causes.lessons import teacher_place, without_teacher
from lossleuth.causes.reasoning import optimizer_place
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted


def judge(evidence: Evidence) -> Judgement:
    """Look for gradient in what only the target depends on."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = evidence.all(Teaching)
    moved = [teaching for teaching in known if teaching.target_share > 0]
    if not moved:
        return refuted(
            f"a share of 0 of the gradient reaches the teacher on {len(known)} recorded steps"
        )
    largest = max(moved, key=lambda teaching: teaching.target_share)
    names = ", ".join(largest.target_parameters)
    return Judgement(
        Status.PROVEN,
        f"{largest.target_share:.1%} of the squared gradient goes into parameters that only the "
        f"teacher's target depends on ({names}); it should be 0. The target moves towards the "
        "student.",
        _where(evidence, largest, moved),
        Wrongness("share of the gradient that moves the target", largest.target_share, 0.0, 0.0),
        remedy="Detach the target, and train nothing between the teacher and the target.",
    )


def _where(evidence: Evidence, largest: Teaching, moved: list[Teaching]) -> Where | None:
    """The optimizer if it was given a whole teacher; else the line of the layer."""
    made = teacher_place(moved)
    return optimizer_place(evidence) or made if largest.target_whole else made


CAUSE = Cause(
    "teacher_trained",
    Stage.DISTILLATION,
    "the teacher, or a layer after it, is trained too",
    judge,
    uses=(Teaching,),
    overlaps=("teacher_random", "teacher_weak"),
    by_recorded_steps=True,
)
