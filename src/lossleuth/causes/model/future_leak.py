"""A position sees later tokens.

What it means
    The causal mask is missing, inverted, dropped on the way or off by one; or something mixes
    positions, such as a normalisation over the sequence.

Why training fails
    The model reads the answer: its loss falls far below what is possible. The text that it
    generates, where there is no future to read, is garbage.

How it is judged
    Single tokens, all over the sequence, are changed where the program looks them up, and the step
    is replayed in float64. Logits before them must stay exactly as they were. What that is worth is
    measured on the same step: the loss of a position with all later tokens replaced by others,
    against its loss as trained. From 0.01 nat on it is proven, where the targets are the next
    tokens; if the run has learnt and it is less, benign. What moves logits by less than the last
    digit of float32, and does no harm, is none.

How to fix
    Pass the mask, or `is_causal=True`, to every attention; check its direction and its offset.

When this verdict is wrong
    When the model is meant to see its whole input; such models do not predict the next token.
    What later tokens do through choices, such as a router's or a sort's, is not seen: choices are
    those of the recording.
"""

from __future__ import annotations

from dataclasses import replace

from lossleuth.causes.edits import causal
from lossleuth.causes.leaking import (
    MIN_BELOW_UNIGRAM,
    MIN_HARM,
    MIN_LEARNT,
    MIN_MOVE,
    MIN_SEEN,
    asks_for_next,
    future_leaks,
    judge_leaks,
)
from lossleuth.causes.reasoning import is_torn
from lossleuth.findings.data import Alignment
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Leaks, Softmaxes
from lossleuth.types.cause import Cause, always
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Look at logits before the changed position."""
    if is_torn(evidence):
        return untested("rows of logits are mixed up: see softmax_axis")
    leaks = future_leaks(evidence)
    if not leaks:
        return untested("no recorded step has logits before a changed token")
    if any(leak.is_there for leak in leaks) and not asks_for_next(leaks):
        return refuted(
            f"the model sees its whole input, and its targets are the next tokens on none of "
            f"{len(leaks)} recorded steps"
        )
    found = judge_leaks(
        evidence,
        leaks,
        "changing one token moves the logits of earlier positions",
        "in a causal model it is exactly 0",
        "Mask later positions in every attention.",
    )
    there = [leak for leak in leaks if leak.is_there]
    if found.status is Status.PROVEN and all(leak.is_beside_an_offset for leak in there):
        because = (
            f"{found.because} But targets stand at offset {there[-1].offset}: which positions are "
            "to be asked for theirs is not known."
        )
        return replace(found, status=Status.SUSPECTED, because=because)
    if found.status is Status.PROVEN and all(leak.by_code for leak in there):
        because = (
            f"{found.because} It comes in through something that all positions of a text share: an "
            "autoencoder means that, a language model does not."
        )
        return replace(found, status=Status.SUSPECTED, because=because)
    return found


CAUSE = Cause(
    "future_leak",
    Stage.MODEL,
    "a position sees later tokens",
    judge,
    needs=(Leaks,),
    uses=(Alignment, Softmaxes, TrueLoss),
    limits=(MIN_HARM, MIN_MOVE, MIN_LEARNT, MIN_BELOW_UNIGRAM, MIN_SEEN),
    overlaps=("softmax_axis", "batch_leak"),
    fix=causal,
    is_core=always,
)
