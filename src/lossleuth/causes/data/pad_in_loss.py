"""Padding is supervised.

What it means
    Rows of different lengths are filled up with a padding token, and the loss counts the positions
    past the end of the text.

Why training fails
    Predicting padding after padding is easy: the loss falls because of it, and the share of the
    gradient that teaches language shrinks.

How it is judged
    Padding is known by its looks: runs of one token at the ends of rows, of different lengths, of a
    token that hardly occurs elsewhere. Supervised targets inside those runs are the fault, beyond
    the first, which may stand for the end of the text.

How to fix
    Set the labels of padded positions to the ignored index, or pass it as `ignore_index`.

When this verdict is wrong
    When a text really ends in a long run of one token.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place, share
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# Share of the supervised targets that is padding.
LEAST = 0.05


def judge(evidence: Evidence) -> Judgement:
    """Look for supervised padding on every recorded step."""
    known = [p for p in evidence.probed("padding") if p.get("untested") is None]
    if not known:
        return untested("no step with rows of tokens and targets was recorded")
    padded = [p for p in known if p["token"] is not None and p["supervised"]]
    if not padded:
        return refuted(f"no padding was found on {len(known)} recorded steps")
    supervised = sum(p["supervised_pads"] for p in padded)
    part = share(supervised, sum(p["supervised"] for p in padded))
    if part < LEAST or any(not p["supervised_pads"] for p in padded):
        return refuted(f"{part:.1%} of the supervised targets are padding")
    because = (
        f"{part:.0%} of the supervised targets are the padding token {padded[-1]['token']} past "
        "the end of a row; it should be 0 %."
    )
    return Judgement(
        Status.PROVEN,
        because,
        first_place(p["loss"] for p in evidence.probed("target_places")),
        Wrongness("share of supervised padding", part, 0.0, 0.0),
        remedy="Give padded positions the label that the loss ignores.",
    )


CAUSE = Cause("pad_in_loss", Stage.DATA, "padding is supervised", judge, changes_printed_loss=True)
