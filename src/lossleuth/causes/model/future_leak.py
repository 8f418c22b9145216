"""A position sees later tokens.

What it means
    The causal mask is missing, inverted, lost on the way or off by one; or something mixes
    positions, such as a normalisation over the sequence.

Why training fails
    The model reads the answer: its loss falls far below what is possible, and the text it writes,
    where no future is there to be read, is garbage.

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
from lossleuth.causes.reasoning import finite, first_place, is_torn
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested


def judge(evidence: Evidence) -> Judgement:
    """Look at logits before the changed position."""
    if is_torn(evidence):
        return untested("what is a row of logits is not known: see softmax_axis")
    pairs = [
        (w["leaks"], w.get("alignment") or {})
        for w in evidence.windows
        if finite([(w.get("leaks") or {}).get("future")])
    ]
    if not pairs:
        reasons = [x["untested"] for x in evidence.probed("leaks") if x.get("untested")]
        return untested(reasons[0] if reasons else "no step with tokens and logits was recorded")
    leaking = [(x, a) for x, a in pairs if x["future"] > x["floor"]]
    if len(leaking) < len(pairs):
        most = min(x["future"] for x, _ in pairs)
        return refuted(f"changing a token moves earlier logits by {most:.1e}, expected 0")
    offsets = {a.get("offset") for _, a in pairs}
    if not any(offset is not None and offset >= 1 for offset in offsets):
        return refuted(
            f"the model sees its whole input, and on none of {len(pairs)} recorded steps is it "
            "asked for the next token"
        )
    move = min(x["future"] for x, _ in leaking)
    because = (
        f"Changing one token moves the logits of earlier positions by {move:.2g} of their standard "
        f"deviation on all of {len(pairs)} recorded steps; in a causal model it is exactly 0."
    )
    places = [p for x, _ in leaking for p in x.get("places", ())]
    return Judgement(
        Status.PROVEN,
        because,
        first_place(places),
        Wrongness("move of earlier logits", move, 0.0, leaking[-1][0]["floor"]),
        remedy="Mask later positions in every attention.",
    )


CAUSE = Cause(
    "future_leak",
    Stage.MODEL,
    "a position sees later tokens",
    judge,
    ("leaks", "alignment"),
    overlaps=("softmax_axis", "batch_leak"),
    fix=causal,
)
