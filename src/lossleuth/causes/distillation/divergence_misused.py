"""What compares student and teacher is no divergence.

What it means
    Logarithms where probabilities belong or the reverse, truncated probabilities that are not
    renormalised, a mean over classes as well, a sum over positions.

Why training fails
    A divergence is at rest where the student says what the teacher says. This one is not, and leads
    somewhere else; or it is at rest there and so small, or so large, that one of the terms is
    alone.

How it is judged
    The lesson of a recorded step is taken as a function: with the student's scores put equal to the
    teacher's, its gradient has to be 0, at any temperature and for every divergence there is.
    And per position it should weigh as much as its coefficient says, not a share of that for each
    class. Where that is not so, the reference divergence, or the right scale, is put in its place
    over paired seeds: proven if the true loss is lower then, benign if not.

How to fix
    `F.kl_div(log_softmax(student / T), log_softmax(teacher / T), log_target=True,
    reduction="batchmean")` on rows of positions, times T².

When this verdict is wrong
    Targets that mix teacher and labels rest elsewhere by intention; those are recognised. The
    direction of the divergence is a choice and never blamed.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    Taught,
    compared_place,
    is_divided_by_classes,
    lessons,
    without_teacher,
)
from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# What may be asked for at the goal, of what is asked for now, and the share of it that may lead to
# the labels.
AT_REST, TO_LABELS = 1e-3, 0.95


def judge(evidence: Evidence) -> Judgement:
    """Is it at rest at the goal, and does it weigh what a position should?"""
    nobody = without_teacher(evidence)
    if nobody is not None:
        return nobody
    known = [found for found in lessons(evidence) if found.get("pull_at_goal") is not None]
    if not known:
        return untested("what the lesson asks for at its goal could not be measured")
    last = known[-1]
    pull = min(float(found["pull_at_goal"]) for found in known)
    heats = last["student_temperature"], last["teacher_temperature"]
    one_sided = None in heats or abs(heats[0] / heats[1] - 1) > AT_REST
    mixed = all(abs(found.get("pull_to_labels") or 0.0) > TO_LABELS for found in known)
    if pull > AT_REST and not one_sided and not mixed:
        return _misled(evidence, known, pull)
    if all(is_divided_by_classes(found) for found in known):
        return _misweighed(evidence, known)
    return refuted(
        f"where the student says what the teacher says, the lesson asks for {pull:.1e} of what it "
        "asks for now (0 expected)"
        + (", the rest leads to the labels" if mixed and pull > AT_REST else "")
    )


def _misled(evidence: Evidence, known: list[Taught], pull: float) -> Judgement:
    last = known[-1]
    heat = last["teacher_temperature"] or 1.0
    fault = Judgement(
        Status.SUSPECTED,
        f"With the student's scores equal to the teacher's, the lesson still asks for {pull:.2f} "
        "times what it asks for now; a divergence asks for 0 there.",
        compared_place(known),
        Wrongness("gradient where student and teacher agree", pull, 0.0, 1e-9),
        remedy="Compare log-probabilities of both by a divergence.",
    )
    # As much as labels weigh, which is what most people mean.
    weight = last["label_weight"] if last["has_labels"] and last["label_weight"] else 1.0
    change = Change.of("teach_by_reference", temperature=heat, weight=round(float(weight), 4))
    return decided_by_trial(evidence, fault, [change])


def _misweighed(evidence: Evidence, known: list[Taught]) -> Judgement:
    last = known[-1]
    fault = Judgement(
        Status.SUSPECTED,
        f"The divergence of a position is multiplied with {last['weight']:.2e}, the cross-entropy "
        f"of one with {last['label_weight']:.2f}: it is divided by the {last['classes']} classes "
        "as well, and has no say.",
        compared_place(known),
        Wrongness("weight of a position's divergence", last["weight"], last["label_weight"], 1e-9),
        remedy='Sum over classes, and take the mean over positions: `reduction="batchmean"`.',
    )
    return decided_by_trial(evidence, fault, [Change.of("scale_lesson", factor=last["classes"])])


CAUSE = Cause(
    "divergence_misused",
    Stage.DISTILLATION,
    "what compares student and teacher is no divergence",
    judge,
    ("teaching",),
    overlaps=("vocabulary_mismatch", "weights_swapped"),
)
