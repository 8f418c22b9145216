"""Gradients end on their way: detach, .data, no_grad, a round trip through numpy.

What it means
    What is computed depends on a parameter, and no gradient reaches it, or only a part of it does.

Why training fails
    The parameters behind the cut stay as they were made, or follow a part of the truth.

How it is judged
    The step is replayed with every cut opened. Where parameters that the program trains would get
    another gradient, the cut is there, by line. Whether it was better without is tried, since a cut
    may well be meant: the same run with gradients through the cuts.

How to fix
    Compute with tensors all the way; do not detach what is to be trained.

When this verdict is wrong
    When stopping the gradient is part of the method and costs something; a teacher, a target
    network and a straight-through estimator do not profit from opening.
"""

from __future__ import annotations

from lossleuth.causes.edits import without_cut
from lossleuth.causes.reasoning import decided_by_trial, finite
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

# Share of the gradient that has to be lost.
LEAST = 1e-3
CURE = Change.of("follow_true_gradient", opened=True)


def judge(evidence: Evidence) -> Judgement:
    """Look for parameters that would get another gradient without the cuts."""
    found = [c for w in evidence.windows for c in w.get("cuts") or ()]
    known = [c for c in found if c.get("untested") is None and finite([c["lost_share"]])]
    if not known:
        reasons = [c["untested"] for c in found if c.get("untested")]
        return untested(reasons[0] if reasons else "no finite gradient was recorded")
    cut = [c for c in known if c["starved"] or c["changed"]]
    worst = max(cut, key=lambda c: c["lost_share"], default=None)
    if worst is None or worst["lost_share"] < LEAST:
        most = max(c["lost_share"] for c in known)
        return refuted(f"cuts take {most:.1e} of the gradient of what is trained")
    place = next((p for p in worst["places"] if p["file"]), None)
    starved = worst["starved"]
    if starved:
        who = f"{len(starved)} trained parameters get no gradient at all (such as {starved[0]})"
    else:
        who = f"{len(worst['changed'])} trained parameters get only a part of their gradient"
    by = f" because of {place['operation']}" if place else ""
    because = f"{who}{by}; {worst['lost_share']:.0%} of the true gradient is lost, expected 0 %."
    fault = Judgement(
        Status.SUSPECTED,
        because,
        None if place is None else Where(place["file"], place["line"]),
        Wrongness("share of the gradient lost", worst["lost_share"], 0.0, 1e-9),
        remedy="Let gradients through: no detach, .data, no_grad or numpy on the way to the loss.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "graph_cut",
    Stage.GRADIENT,
    "gradients end on their way to parameters",
    judge,
    ("cuts",),
    overlaps=("wrong_backward", "parameters_frozen", "unregistered_parameters"),
    fix=without_cut,
)
