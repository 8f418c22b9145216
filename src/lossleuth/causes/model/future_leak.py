"""A position sees later tokens.

What it means
    The causal mask is missing, inverted, dropped on the way or off by one; or something mixes
    positions, such as a normalisation over the sequence.

Why training fails
    The model reads the answer: its loss falls far below what is possible. The text that it
    generates, where there is no future to read, is garbage.

How it is judged
    Tokens at one position are changed where the program looks them up, and the step is replayed in
    float64. Logits before that position must stay exactly as they were. Proven by that alone, where
    the targets are the next tokens.

How to fix
    Pass the mask, or `is_causal=True`, to every attention; check its direction and its offset.

When this verdict is wrong
    When the model is meant to see its whole input; such models do not predict the next token.
"""

from __future__ import annotations

from lossleuth.causes.edits import causal
from lossleuth.causes.reasoning import (
    asks_for_next,
    first_place,
    future_leaks,
    is_torn,
    leaks_always,
)
from lossleuth.findings.data import Alignment
from lossleuth.findings.model import Leaks, Softmaxes
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Look at logits before the changed position."""
    if is_torn(evidence):
        return untested("rows of logits are mixed up: see softmax_axis")
    leaks = future_leaks(evidence)
    if not leaks:
        return untested("no recorded step has logits before a changed token")
    move = min(leak.move for leak in leaks)
    if not leaks_always(leaks):
        return refuted(f"changing a token moves earlier logits by {move:.1e}, expected 0")
    if not asks_for_next(leaks):
        return refuted(
            f"the model sees its whole input, and its targets are the next tokens on none of "
            f"{len(leaks)} recorded steps"
        )
    because = (
        f"Changing one token moves the logits of earlier positions by {move:.2g} of their standard "
        f"deviation on all of {len(leaks)} recorded steps; in a causal model it is exactly 0."
    )
    return Judgement(
        Status.PROVEN,
        because,
        first_place(place for leak in leaks for place in leak.places),
        Wrongness("move of earlier logits", move, 0.0, leaks[-1].floor),
        remedy="Mask later positions in every attention.",
    )


CAUSE = Cause(
    "future_leak",
    Stage.MODEL,
    "a position sees later tokens",
    judge,
    needs=(Leaks,),
    uses=(Alignment, Softmaxes),
    overlaps=("softmax_axis", "batch_leak"),
    fix=causal,
)
