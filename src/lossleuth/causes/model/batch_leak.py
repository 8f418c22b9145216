"""Rows of a batch influence each other.

What it means
    The logits of one row depend on the tokens of another: a reshape that mixes axes, an attention
    over the batch, a normalisation over rows.

Why training fails
    What the model learns holds for batches, not for texts: alone, a text gets other predictions.

How it is judged
    The first row's tokens are changed where the program looks them up, and the step is replayed in
    float64. Logits of all other rows must stay exactly as they were. Proven by that alone.

How to fix
    Look for a view or transpose with batch and time in the wrong order.

When this verdict is wrong
    When rows are meant to compete, as for the places of an expert with a limited capacity.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place, is_torn, leaks_always, row_leaks
from lossleuth.findings.model import Leaks, Softmaxes
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Look at the logits of other rows."""
    if is_torn(evidence):
        return untested("rows of logits are mixed up: see softmax_axis")
    leaks = row_leaks(evidence)
    if not leaks:
        return untested("no step with several rows was recorded")
    move = min(leak.move for leak in leaks)
    if not leaks_always(leaks):
        return refuted(f"changing a row moves the logits of others by {move:.1e}, expected 0")
    because = (
        f"Changing one row moves the logits of other rows by {move:.2g} of their standard "
        f"deviation on all of {len(leaks)} recorded steps; it should be exactly 0."
    )
    return Judgement(
        Status.PROVEN,
        because,
        first_place(place for leak in leaks for place in leak.places),
        Wrongness("move of other rows' logits", move, 0.0, leaks[-1].floor),
        remedy="Keep rows apart: check views and transposes of batch and time.",
    )


CAUSE = Cause(
    "batch_leak",
    Stage.MODEL,
    "rows of a batch influence each other",
    judge,
    needs=(Leaks,),
    uses=(Softmaxes,),
    overlaps=("softmax_axis", "future_leak"),
)
