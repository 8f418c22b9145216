"""The reported loss counts padding.

What it means
    Rows of an evaluation are filled up with a padding token, and the number that is reported counts
    the positions past the end of the text.

Why training fails
    It does not: the weights do not depend on this number. But padding is easy to predict, or was
    never trained: the number is far too good or far too bad, and changes with the batches.

How it is judged
    Which positions count is taken from the derivative of the number for the scores, on recorded
    evaluations. Padding is known by its looks, as for `pad_in_loss`. Proven if it counts and the
    same mean without it is another one.

How to fix
    Leave padded positions out of the metric, by the ignored label or a mask.

When this verdict is wrong
    When a text really ends in a long run of one token.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import share, where_of
from lossleuth.causes.reported_numbers import (
    LEAST,
    UNHARMED,
    cross_entropies,
    finite,
    measured,
    nothing_measured,
    over_tokens,
    sound,
)
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, untested

# Share of the counted positions that is padding.
FEWEST = 0.05


def judge(evidence: Evidence) -> Judgement:
    """Look for padded positions among those that reported numbers count."""
    evaluations = measured(evidence)
    if not evaluations:
        return nothing_measured(evidence)
    padded, clean, seen = [], set[int](), 0
    for evaluation, metric, numbers in cross_entropies(evaluations):
        seen += 1
        known = [n for n in numbers if finite(n, "unpadded")]
        pads = sum(n["pads"] for n in known)
        if not pads:
            clean.add(int(evaluation["step"]))
            continue
        part = share(pads, sum(n["count"] for n in known))
        reported, right = over_tokens(known, "mean"), over_tokens(known, "unpadded")
        floor = max(float(n["floor"]) for n in known)
        padded.append((part, reported, right, floor, metric["place"], int(evaluation["step"])))
    if not seen:
        return untested("no reported number is a cross-entropy of known tokens")
    if not padded:
        return sound(f"no padding counts in any of {seen} reported numbers", evidence)
    part, reported, right, floor, place, step = max(padded, key=lambda p: abs(p[1] - p[2]))
    told = (
        f"{part:.0%} of the positions that the reported loss counts are padding; it is "
        f"{reported:.4f}, and {right:.4f} without them."
    )
    if part < FEWEST or abs(reported - right) < LEAST or step in clean:
        return Judgement(Status.BENIGN, f"{told} That is little, or reported beside the right one.")
    return Judgement(
        Status.PROVEN,
        f"{told} {UNHARMED}",
        where_of(place),
        Wrongness("reported loss", reported, right, floor),
        remedy="Leave padded positions out of the metric.",
    )


CAUSE = Cause(
    "pads_in_metric",
    Stage.EVALUATION,
    "the reported loss counts padding",
    judge,
    ("evaluations",),
    overlaps=("pad_in_loss",),
)
