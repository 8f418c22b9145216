"""Gradients end before they reach parameters: detach, .data, no_grad, a round trip through numpy.

What it means
    The loss depends on a parameter, and no gradient reaches it, or only a part of it does.

Why training fails
    The parameters behind the cut stay as they were made, or follow only a part of their gradient.

How it is judged
    The step is replayed with every cut opened. Where parameters that the program trains would get
    another gradient, the cut is there, by line. A cut may well be meant, so whether it matters is
    tried: the same run with gradients through the cuts. Where the parameters before the cut are
    trained by another way, as they are before the state of a recurrent memory, a router's input or
    a copy of the weights is detached, it is told, and suspected only if that trial gains.

How to fix
    Compute with tensors all the way; do not detach what is to be trained.

When this verdict is wrong
    When stopping the gradient is part of the method and costs something; a teacher, a target
    network and a straight-through estimator do not profit from opening.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lossleuth.causes.edits import without_cut
from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial
from lossleuth.findings.gradient import GraphCuts
from lossleuth.types.cause import Cause, Limit, always
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MIN_LOST_SHARE = Limit(1e-3, "least share of the gradient that cuts have to take")
CURE = Change.of("follow_true_gradient", opened=True)


def judge(evidence: Evidence) -> Judgement:
    """Look for parameters that would get another gradient without the cuts."""
    found = [(cuts, cuts.lost_share) for cuts in evidence.all(GraphCuts)]
    known = [(cuts, lost) for cuts, lost in found if lost is not None and math.isfinite(lost)]
    if not known:
        return untested("no finite gradient was recorded")
    harmed = [(cuts, lost) for cuts, lost in known if cuts.starved or cuts.changed]
    worst, lost = max(harmed, key=lambda pair: pair[1], default=(None, 0.0))
    if worst is None or lost < MIN_LOST_SHARE:
        most = max(lost for _, lost in known)
        return refuted(f"cuts take {most:.1e} of the gradient of what is trained")
    place = next((cut for cut in worst.places if cut.file), None)
    by = f" because of {place.operation}" if place else ""
    fault = Judgement(
        Status.SUSPECTED,
        f"{_who(worst)}{by}; {lost:.0%} of the true gradient is lost, expected 0 %.",
        None if place is None else Where(place.file, place.line),
        Wrongness("share of the gradient lost", lost, 0.0, 1e-9),
        remedy="Let gradients through: no detach, .data, no_grad or numpy on the way to the loss.",
    )
    if not worst.starved and not evidence.answers([CURE]):
        # What is before the cut is trained all the same: that may be the method, and no fault.
        fault = replace(fault, wrongness=None)
    return decided_by_trial(evidence, fault, [CURE])


def _who(cuts: GraphCuts) -> str:
    """The parameters behind the cuts, in words."""
    if not cuts.starved:
        return f"{len(cuts.changed)} trained parameters get only a part of their gradient"
    count = len(cuts.starved)
    return f"{count} trained parameters get no gradient at all (such as {cuts.starved[0]})"


CAUSE = Cause(
    "graph_cut",
    Stage.GRADIENT,
    "gradients end on their way to parameters",
    judge,
    needs=(GraphCuts,),
    limits=(MIN_LOST_SHARE, MIN_EFFECT_NATS),
    overlaps=("wrong_backward", "parameters_frozen", "unregistered_parameters"),
    fix=without_cut,
    is_core=always,
)
