"""Rows of a batch influence each other.

What it means
    The logits of one row depend on the tokens of another: a reshape that mixes axes, an attention
    over the batch, a normalisation over rows.

Why training fails
    What is learnt holds for batches, not for texts; alone, a text gives other predictions.

How it is judged
    The first row's tokens are changed where the program looks them up, and the step is replayed in
    float64. Logits of all other rows must stay exactly as they were. Proven by that alone.

How to fix
    Look for a view or transpose with batch and time in the wrong order.

When this verdict is wrong
    When rows are meant to compete, as for the places of an expert with a limited capacity.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import finite, first_place, is_torn
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Look at the logits of other rows."""
    if is_torn(evidence):
        return untested("what is a row of logits is not known: see softmax_axis")
    known = [x for x in evidence.probed("leaks") if finite([x.get("batch")])]
    if not known:
        reasons = [x["untested"] for x in evidence.probed("leaks") if x.get("untested")]
        return untested(reasons[0] if reasons else "no step with several rows was recorded")
    leaking = [x for x in known if x["batch"] > x["floor"]]
    if len(leaking) < len(known):
        most = min(x["batch"] for x in known)
        return refuted(f"changing a row moves the logits of others by {most:.1e}, expected 0")
    move = min(x["batch"] for x in leaking)
    because = (
        f"Changing one row moves the logits of other rows by {move:.2g} of their standard "
        f"deviation on all of {len(known)} recorded steps; it should be exactly 0."
    )
    return Judgement(
        Status.PROVEN,
        because,
        first_place(p for x in leaking for p in x.get("batch_places", ())),
        Wrongness("move of other rows' logits", move, 0.0, leaking[-1]["floor"]),
        remedy="Keep rows apart: check views and transposes of batch and time.",
    )


CAUSE = Cause(
    "batch_leak",
    Stage.MODEL,
    "rows of a batch influence each other",
    judge,
    ("leaks",),
    overlaps=("softmax_axis", "future_leak"),
)
