"""Rows of a batch influence each other.

What it means
    The logits of one row depend on the tokens of another: a reshape that mixes axes, an attention
    over the batch, a normalisation over rows.

Why training fails
    What the model learns holds for batches, not for texts: alone, a text gets other predictions.

How it is judged
    The tokens of every second row, then of the others, are changed where the program looks them up,
    and the step is replayed in float64. Logits of the rows that were not changed must stay exactly
    as they were. What that is worth is the loss of those rows before and after; or, where what
    comes from other rows is noise to the model, how much better predictions are that are averaged
    over both neighbourhoods. From 0.01 nat on it is proven; if the run has learnt and it is less,
    benign. Where neither content nor effect tells which rows of logits are of which text, it is
    only suspected. Statistics of the batch that the program keeps for later, as batch normalisation
    does, are held as they were.

How to fix
    Look for a view or transpose with batch and time in the wrong order.

When this verdict is wrong
    When rows are meant to compete, as for the places of an expert with a limited capacity.
"""

from __future__ import annotations

from dataclasses import replace

from lossleuth.causes.leaking import (
    MIN_BELOW_UNIGRAM,
    MIN_HARM,
    MIN_LEARNT,
    MIN_MOVE,
    judge_leaks,
    row_leaks,
)
from lossleuth.causes.reasoning import is_torn
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Leaks, Softmaxes
from lossleuth.types.cause import Cause, always
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, untested


def judge(evidence: Evidence) -> Judgement:
    """Look at the logits of other rows."""
    if is_torn(evidence):
        return untested("rows of logits are mixed up: see softmax_axis")
    leaks = row_leaks(evidence)
    if not leaks:
        return untested("no step with several rows was recorded")
    found = judge_leaks(
        evidence,
        leaks,
        "changing rows moves the logits of other rows",
        "it should be exactly 0",
        "Keep rows apart: check views and transposes of batch and time.",
    )
    if found.status is Status.PROVEN and not all(x.texts_known for x in evidence.all(Leaks)):
        because = f"{found.because} But which rows are of which text is not known for sure."
        return replace(found, status=Status.SUSPECTED, because=because)
    return found


CAUSE = Cause(
    "batch_leak",
    Stage.MODEL,
    "rows of a batch influence each other",
    judge,
    needs=(Leaks,),
    uses=(Softmaxes, TrueLoss),
    limits=(MIN_HARM, MIN_MOVE, MIN_LEARNT, MIN_BELOW_UNIGRAM),
    overlaps=("softmax_axis", "future_leak"),
    is_core=always,
)
