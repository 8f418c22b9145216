"""Padding is supervised.

What it means
    Rows of different lengths are filled up with a padding token, and the loss counts the positions
    past the end of the text.

Why training fails
    Predicting padding after padding is easy: the loss falls because of it, and the share of the
    gradient that teaches language shrinks.

How it is judged
    Padding is recognised by its looks: runs of one token at the ends of rows, of different lengths,
    of a token that hardly occurs elsewhere. Supervised targets inside those runs are the fault,
    beyond the first, which may be the end of the text.

How to fix
    Set the labels of padded positions to the ignored index, or pass it as `ignore_index`.

When this verdict is wrong
    When a text really ends in a long run of one token.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import first_place, share
from lossleuth.findings.data import Padding, TargetLines
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted

MIN_PAD_SHARE = Limit(0.05, "least share of the supervised targets that is padding")


def judge(evidence: Evidence) -> Judgement:
    """Look for supervised padding on every recorded step."""
    known = evidence.all(Padding)
    padded = [padding for padding in known if padding.share > 0 and padding.supervised]
    if not padded:
        return refuted(f"no padding was found on {len(known)} recorded steps")
    pads = sum(padding.supervised_pads for padding in padded)
    part = share(pads, sum(padding.supervised for padding in padded))
    if part < MIN_PAD_SHARE or any(not padding.supervised_pads for padding in padded):
        return refuted(f"{part:.1%} of the supervised targets are padding")
    because = (
        f"{part:.0%} of the supervised targets are the padding token {padded[-1].token} past "
        "the end of a row; it should be 0 %."
    )
    return Judgement(
        Status.PROVEN,
        because,
        first_place(lines.loss for lines in evidence.all(TargetLines)),
        Wrongness("share of supervised padding", part, 0.0, 0.0),
        remedy="Give padded positions the label that the loss ignores.",
    )


CAUSE = Cause(
    "pad_in_loss",
    Stage.DATA,
    "padding is supervised",
    judge,
    needs=(Padding,),
    uses=(TargetLines,),
    limits=(MIN_PAD_SHARE,),
    changes_printed_loss=True,
    relies_on=("lookups",),
)
