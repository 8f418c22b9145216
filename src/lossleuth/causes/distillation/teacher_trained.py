"""The target moves: gradients reach what the teacher's scores are made of.

What it means
    The teacher, or a projector between it and the target, is part of the graph that is
    differentiated, and its parameters are trained with the student.

Why training fails
    The distance between two moving models can be closed from either side. The target comes to meet
    the student, the distillation loss falls, and nothing of the teacher is learnt.

How it is judged
    On recorded steps, by data flow: the share of the squared gradient that goes into parameters
    that only the target is made of. It is exactly 0 when the target is fixed. Proven by that alone.

How to fix
    Compute the target under `torch.no_grad()` or detach it, and keep its parameters out of the
    optimizer. What has to be learnt between two models belongs on the student's side.

When this verdict is wrong
    When two models are meant to learn from each other. Peers that both have labels of their own are
    left out.
"""

from __future__ import annotations

from lossleuth.causes.lessons import Taught, lessons, made_place, without_teacher
from lossleuth.causes.reasoning import optimizer_place
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted


def judge(evidence: Evidence) -> Judgement:
    """Look for gradient in what only the target is made of."""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known = lessons(evidence)
    moved = [found for found in known if found["target_share"] > 0]
    if not moved:
        return refuted(
            f"a share of 0 of the gradient reaches the teacher on {len(known)} recorded steps"
        )
    most = max(moved, key=lambda found: float(found["target_share"]))
    names = ", ".join(most["target_parameters"])
    return Judgement(
        Status.PROVEN,
        f"{most['target_share']:.1%} of the squared gradient goes into what only the teacher's "
        f"target is made of ({names}); it should be 0. The target moves towards the student.",
        _where(evidence, most, moved),
        Wrongness("share of the gradient that moves the target", most["target_share"], 0.0, 0.0),
        remedy="Detach the target, and train nothing between the teacher and the target.",
    )


def _where(evidence: Evidence, most: Taught, moved: list[Taught]) -> Where | None:
    """A whole teacher was given to the optimizer; a layer behind it was put there."""
    made = made_place(moved)
    return optimizer_place(evidence) or made if most["target_whole"] else made


CAUSE = Cause(
    "teacher_trained",
    Stage.DISTILLATION,
    "the teacher, or a layer behind it, is trained along",
    judge,
    ("teaching",),
    overlaps=("teacher_random", "teacher_weak"),
)
