"""A softmax is taken over the wrong axis.

What it means
    The loss's softmax runs over positions or rows in place of classes, classes were torn apart by a
    reshape where a transpose was meant, or attention weights sum to 1 over the queries.

Why training fails
    Probabilities that are no probabilities: the loss compares positions with each other, or
    attention adds up more or less than it should, also from the future.

How it is judged
    Class numbers are sent through the very operations that the logits went through, and must arrive
    in order along the axis of the softmax, which must be the axis that targets pick along. Weights
    inside the model that sum to 1 along one axis and are summed over another count where positions
    or rows see what they must not see: weights over features may be meant that way.

How to fix
    `dim=-1` for scores with classes last; `transpose(1, 2)`, not `view`, to bring classes to the
    second place.

When this verdict is wrong
    When weights over queries are meant, as in slot attention, in a model that predicts next tokens.
"""

from __future__ import annotations

from typing import Any

from lossleuth.causes.model.batch_leak import judge as leaks_rows
from lossleuth.causes.model.future_leak import judge as leaks_future
from lossleuth.causes.reasoning import where_of
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Look at the loss's softmax and at those inside the model."""
    known = evidence.probed("softmaxes")
    if not known:
        return untested("no step with a softmax was recorded")
    leaking = Status.PROVEN in (leaks_future(evidence).status, leaks_rows(evidence).status)
    wrong = [_fault(s, leaking=leaking) for s in known]
    found = [w for w in wrong if w is not None]
    if len(found) < len(known):
        return refuted(
            f"every softmax of {len(known) - len(found)} recorded steps is taken over the axis "
            "that it is used along"
        )
    what, value, where = found[-1]
    return Judgement(
        Status.PROVEN,
        f"{what} on {len(known)} of {len(known)} recorded steps.",
        where,
        Wrongness("classes in place, or sums over the axis of use", value, 1.0, 0.0),
        remedy="Take the softmax over the axis that it is used along.",
    )


def _fault(found: Any, *, leaking: bool) -> tuple[str, float, Where | None] | None:
    place = where_of(found.get("place"))
    if found.get("picked_elsewhere"):
        return "Targets pick along another axis than the loss's softmax is taken over", 0.0, place
    kept = found.get("classes_in_place")
    if kept is not None and kept < 1:
        told = (
            f"Only {kept:.1%} of the classes arrive at the loss where the logits had them (100 %)"
        )
        return told, kept, place
    if found.get("crossed") and leaking:
        file, line = found["crossed"][0]
        told = "Weights sum to 1 along another axis than they are summed over"
        return told, 0.0, Where(file, line)
    return None


CAUSE = Cause(
    "softmax_axis",
    Stage.LOSS,
    "a softmax is taken over the wrong axis",
    judge,
    ("softmaxes", "leaks", "alignment"),
    overlaps=("future_leak", "batch_leak"),
)
