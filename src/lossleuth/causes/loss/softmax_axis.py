"""A softmax is taken over the wrong axis.

What it means
    The loss's softmax runs over positions or rows in place of classes, classes were torn apart by a
    reshape where a transpose was meant, or attention weights sum to 1 over the queries.

Why training fails
    Probabilities are none: the loss compares positions with each other, or attention adds up more
    or less than it should, also from the future.

How it is judged
    Class numbers are sent through the very operations that the logits went through, and must arrive
    in order along the axis of the softmax, which must be the axis that targets pick along, and
    along which targets that are shares, such as one-hot rows or a teacher's, sum to 1. Weights
    inside the model that sum to 1 along one axis and are summed over another count where positions
    or rows see what they must not see: weights over features may be meant that way.

How to fix
    `dim=-1` for scores with classes last; `transpose(1, 2)`, not `view`, to bring classes to the
    second place.

When this verdict is wrong
    When weights over queries are meant, as in slot attention, in a model that predicts next tokens.
"""

from __future__ import annotations

from lossleuth.causes.leaking import asks_for_next, future_leaks, leaks_always, row_leaks
from lossleuth.causes.reasoning import is_torn, where_of
from lossleuth.findings.data import Alignment
from lossleuth.findings.model import Leaks, Softmaxes
from lossleuth.types.cause import Cause, always
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Look at the loss's softmax and at those inside the model."""
    known = _recorded(evidence)
    if not known:
        return untested("no step with a softmax was recorded")
    leaking = _is_leaking(evidence)
    faults = [fault for s in known if (fault := _fault(s, leaking=leaking)) is not None]
    if len(faults) < len(known):
        return refuted(
            f"every softmax of {len(known) - len(faults)} recorded steps is taken over the axis "
            "that it is used along"
        )
    what, value, where = faults[-1]
    return Judgement(
        Status.PROVEN,
        f"{what} on {len(known)} of {len(known)} recorded steps.",
        where,
        Wrongness("classes in place, or sums over the axis of use", value, 1.0, 0.0),
        remedy="Take the softmax over the axis that it is used along.",
    )


def _recorded(evidence: Evidence) -> list[Softmaxes]:
    """All of them: weights inside a model are measured also where the loss has no softmax."""
    return [s for step in evidence.recorded for s in step.findings if isinstance(s, Softmaxes)]


def _is_leaking(evidence: Evidence) -> bool:
    """Whether positions see later tokens, or rows each other, on every recorded step."""
    if is_torn(evidence):
        return False
    future = future_leaks(evidence)
    return leaks_always(row_leaks(evidence)) or (leaks_always(future) and asks_for_next(future))


def _fault(found: Softmaxes, *, leaking: bool) -> tuple[str, float, Where | None] | None:
    """What is wrong, the share of classes in place, and where; None if nothing is wrong."""
    place, kept = where_of(found.place), found.classes_in_place
    if found.picked_elsewhere:
        return "Targets pick along another axis than the loss's softmax is taken over", 0.0, place
    along = found.targets_in_place
    if found.across_targets is not None and along is not None and along < 1:
        what = (
            f"Targets are shares that sum to 1 along another axis: along that of the loss's "
            f"softmax, {along:.0%} of them do (100 %)"
        )
        return what, along, where_of(found.across_targets)
    if kept is not None and kept < 1:
        what = (
            f"Only {kept:.1%} of the classes arrive at the loss where the logits had them (100 %)"
        )
        return what, kept, place
    if found.crossed and leaking:
        file, line = found.crossed[0]
        what = "Weights sum to 1 along another axis than they are summed over"
        return what, 0.0, Where(file, line)
    return None


CAUSE = Cause(
    "softmax_axis",
    Stage.LOSS,
    "a softmax is taken over the wrong axis",
    judge,
    # The loss's softmax is not needed: see `_recorded`.
    uses=(Softmaxes, Leaks, Alignment),
    overlaps=("future_leak", "batch_leak"),
    is_core=always,
    by_recorded_steps=True,
)
