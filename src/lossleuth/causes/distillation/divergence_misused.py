"""The distillation loss is no divergence.

What it means
    Log-probabilities stand where probabilities belong or the reverse, truncated probabilities are
    not renormalised, the mean is taken over classes as well, or positions are summed.

Why training fails
    The gradient of a divergence is 0 where the student predicts what the teacher predicts. Here it
    is not, and the student is trained towards something else. Or it is, but the loss is so small,
    or so large, that only one of the two terms counts.

How it is judged
    On recorded steps the distillation loss is computed again with the student's scores set to the
    teacher's. Its gradient has to be 0 there, at any temperature and for any divergence. Its weight
    per position should be its coefficient, not that divided by the number of classes. Where either
    is wrong, the reference divergence, or the right scale, is tried over paired seeds: proven if
    the true loss is lower then, benign if not.

How to fix
    `F.kl_div(log_softmax(student / T), log_softmax(teacher / T), log_target=True,
    reduction="batchmean")` with one row per position, times T².

When this verdict is wrong
    Targets that mix teacher and labels have their minimum elsewhere on purpose; they are
    recognised. The direction of the divergence is a choice and never blamed.
"""

from __future__ import annotations

from lossleuth.causes.lessons import (
    MAX_RELATIVE_WEIGHT,
    MAX_TEMPERATURE_GAP,
    MIN_RELATIVE_WEIGHT,
    MIN_WEIGHT_FIT,
    Weights,
    compared_place,
    is_divided_by_classes,
    is_known,
    weights,
    without_teacher,
)
from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial
from lossleuth.findings.distillation import Teaching
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MAX_GRADIENT_AT_GOAL = Limit(
    1e-3,
    "largest gradient where student and teacher agree, as a share of the gradient now",
)
MIN_PULL_TO_LABELS = Limit(
    0.95, "least cosine between that gradient and that of the labels in a mixed target"
)


def judge(evidence: Evidence) -> Judgement:
    """Look at the gradient where both agree, and at the weight of a position."""
    no_teacher = without_teacher(evidence)
    if no_teacher is not None:
        return no_teacher
    known = [(t, t.pull_at_goal) for t in evidence.all(Teaching) if is_known(t.pull_at_goal)]
    if not known:
        return untested(
            "the gradient of the distillation loss where student and teacher agree could not be "
            "measured"
        )
    teachings = [teaching for teaching, _ in known]
    last, where = teachings[-1], compared_place(teachings)
    pull = min(size for _, size in known)
    mixed = all(abs(t.pull_to_labels or 0.0) > MIN_PULL_TO_LABELS for t in teachings)
    if pull > MAX_GRADIENT_AT_GOAL and not _is_one_sided(last) and not mixed:
        return _no_minimum(evidence, last, where, pull)
    weighed = [found for found in map(weights, teachings) if found is not None]
    if len(weighed) == len(teachings) and all(is_divided_by_classes(w) for w in weighed):
        return _divided(evidence, weighed[-1], where)
    return refuted(
        "where the student predicts what the teacher predicts, the gradient of the distillation "
        f"loss is {pull:.1e} of what it is now (0 expected)"
        + (", the rest leads to the labels" if mixed and pull > MAX_GRADIENT_AT_GOAL else "")
    )


def _is_one_sided(teaching: Teaching) -> bool:
    """Whether the temperatures differ, or one is not known: that is another cause."""
    ours, theirs = teaching.student_temperature, teaching.teacher_temperature
    return ours is None or theirs is None or abs(ours / theirs - 1) > MAX_TEMPERATURE_GAP


def _no_minimum(evidence: Evidence, last: Teaching, where: Where | None, pull: float) -> Judgement:
    fault = Judgement(
        Status.SUSPECTED,
        "With the student's scores equal to the teacher's, the gradient of the distillation loss "
        f"is still {pull:.2f} times what it is now; that of a divergence is 0 there.",
        where,
        Wrongness("gradient where student and teacher agree", pull, 0.0, 1e-9),
        remedy="Compare the log-probabilities of both by a divergence.",
    )
    # As much as the labels weigh, which is what most people mean.
    weight = last.label_weight if last.has_labels and last.label_weight else 1.0
    temperature = last.teacher_temperature or 1.0
    change = Change.of("teach_by_reference", temperature=temperature, weight=round(weight, 4))
    return decided_by_trial(evidence, fault, [change])


def _divided(evidence: Evidence, last: Weights, where: Where | None) -> Judgement:
    fault = Judgement(
        Status.SUSPECTED,
        f"The divergence of a position has the weight {last.divergence:.2e}, its cross-entropy "
        f"{last.labels:.2f}: the divergence is also divided by the {last.classes} classes, and "
        "hardly counts.",
        where,
        Wrongness("weight of a position's divergence", last.divergence, last.labels, 1e-9),
        remedy='Sum over classes and take the mean over positions: `reduction="batchmean"`.',
    )
    return decided_by_trial(evidence, fault, [Change.of("scale_lesson", factor=last.classes)])


CAUSE = Cause(
    "divergence_misused",
    Stage.DISTILLATION,
    "the distillation loss is no divergence",
    judge,
    uses=(Teaching,),
    limits=(
        MAX_GRADIENT_AT_GOAL,
        MIN_PULL_TO_LABELS,
        MAX_TEMPERATURE_GAP,
        MIN_RELATIVE_WEIGHT,
        MAX_RELATIVE_WEIGHT,
        MIN_WEIGHT_FIT,
        MIN_EFFECT_NATS,
    ),
    overlaps=("vocabulary_mismatch", "weights_swapped"),
    relies_on=("lookups",),
)
