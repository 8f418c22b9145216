"""The reported loss counts padding.

What it means
    Rows of an evaluation are filled up with a padding token, and the reported number counts the
    positions past the end of the text.

Why training fails
    It does not: the weights do not depend on this number. But padding is easy to predict, or was
    never trained: the number is far too good or far too bad, and changes with the batches.

How it is judged
    Which positions count is taken from the derivative of the number with respect to the scores, on
    recorded evaluations. Padding is recognised as for `pad_in_loss`. Proven if it counts and the
    same mean without it is another one.

How to fix
    Leave padded positions out of the metric, by the ignored label or a mask.

When this verdict is wrong
    When a text really ends in a long run of one token.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import share, where_of
from lossleuth.causes.reported_numbers import (
    MIN_DIFFERENCE_NATS,
    REPORTED_LIMITS,
    UNHARMED,
    cross_entropies,
    is_finite,
    measured,
    nothing_measured,
    over_tokens,
    sound,
)
from lossleuth.findings.evaluation import Evaluation
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, untested

MIN_PAD_SHARE = Limit(0.05, "least share of the counted positions that are padding")


def judge(evidence: Evidence) -> Judgement:
    """Look for padded positions among those that reported numbers count."""
    evaluations = measured(evidence)
    if not evaluations:
        return nothing_measured(evidence)
    padded: list[tuple[float, float, float, float, str | None, int]] = []
    clean, count = set[int](), 0
    for reported in cross_entropies(evaluations):
        count += 1
        known = [
            (n.mean, n.unpadded, n)
            for n in reported.numbers
            if is_finite(n.mean) and is_finite(n.unpadded)
        ]
        pads = sum(n.pads for _, _, n in known)
        if not pads:
            clean.add(reported.seen.step)
            continue
        part = share(pads, sum(n.count for _, _, n in known))
        loss = over_tokens((mean, n.count) for mean, _, n in known)
        right = over_tokens((unpadded, n.count) for _, unpadded, n in known)
        floor = max(n.floor for _, _, n in known)
        padded.append((part, loss, right, floor, reported.metric.place, reported.seen.step))
    if not count:
        return untested("no reported number is a cross-entropy of known tokens")
    if not padded:
        return sound(f"no padding counts in any of {count} reported numbers", evidence)
    part, loss, right, floor, place, step = max(padded, key=lambda p: abs(p[1] - p[2]))
    because = (
        f"{part:.0%} of the positions that the reported loss counts are padding; it is "
        f"{loss:.4f}, and {right:.4f} without them."
    )
    if part < MIN_PAD_SHARE or abs(loss - right) < MIN_DIFFERENCE_NATS or step in clean:
        because += " That is little, or the right number is reported beside it."
        return Judgement(Status.BENIGN, because)
    return Judgement(
        Status.PROVEN,
        f"{because} {UNHARMED}",
        where_of(place),
        Wrongness("reported loss", loss, right, floor),
        remedy="Leave padded positions out of the metric.",
    )


CAUSE = Cause(
    "pads_in_metric",
    Stage.EVALUATION,
    "the reported loss counts padding",
    judge,
    uses=(Evaluation,),
    limits=(MIN_PAD_SHARE, MIN_DIFFERENCE_NATS, *REPORTED_LIMITS),
    overlaps=("pad_in_loss",),
)
