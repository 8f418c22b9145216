"""The loss that is read is not the one whose gradient is followed.

What it means
    The number that the script prints depends on the parameters in another way than the one that is
    differentiated: another loss, an old copy, a term that was meant to be added.

Why training fails
    The optimizer does what it was told, and the printed loss does not care.

How it is judged
    The gradient of every number that the user's code reads is compared with that of what is
    differentiated. Where none points the same way, it was tried to follow the plain cross-entropy
    of the model's own logits instead, over paired seeds: proven if the true loss is lower then.

How to fix
    Call `backward` on the loss that is meant.

When this verdict is wrong
    When what is printed is only one of several terms and the others are meant to lead.
"""

from __future__ import annotations

import statistics

from lossleuth.causes.reasoning import (
    backward_place,
    decided_by_trial,
    finite,
    update_place,
    where_of,
)
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

# Cosine of the gradients of what is read and what is followed.
TOGETHER, AT_TIMES, UPSIDE_DOWN = 0.5, 0.75, -0.99
CURE = Change.of("follow_cross_entropy")


def judge(evidence: Evidence) -> Judgement:
    """Look for a number read whose gradient is the one that is followed."""
    best: list[tuple[float, str | None]] = []
    for window in evidence.windows:
        reads = [r for r in window.get("reported") or () if finite([r.get("cosine")])]
        if reads:
            top = max(reads, key=lambda r: abs(r["cosine"]))
            best.append((float(top["cosine"]), top.get("place")))
    followed = finite(
        g.get("cosine") for w in evidence.windows for g in w.get("logit_gradients") or ()
    )
    made_by_hand = finite(
        h["cosine"] for w in evidence.windows for h in (w.get("hand_gradients") or ())[:1]
    )
    if not best and not made_by_hand:
        if followed and max(followed) > TOGETHER:
            return refuted(
                "what is differentiated asks of the logits what cross-entropy asks "
                f"(cosine {max(followed):.3f}, expected 1)"
            )
        return untested("no number that depends on the parameters was read by the script")
    # Early on, many losses ask for the same: it counts what most recorded steps say.
    cosines = [c for c, _ in best] or made_by_hand
    cosine = statistics.median(cosines)
    if max(cosines) > AT_TIMES:
        # Programs that take turns between losses follow each of them at times.
        cosine = max(cosines)
    if cosine > TOGETHER or cosine < UPSIDE_DOWN:
        agreed = "agree" if cosine > 0 else "are opposites, which is ascent"
        return refuted(
            f"the gradient of what is read and of what is followed {agreed} (cosine {cosine:.4f}, "
            "expected 1)"
        )
    place = where_of(best[-1][1]) if best else None
    because = (
        f"The gradient of the number that the script reads has a cosine of {cosine:.3f} with "
        "the gradient that is followed; it should be near 1."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        # A gradient that is made by hand has no backward pass: it is used where it is taken.
        backward_place(evidence) or place or update_place(evidence),
        Wrongness("cosine of reported and followed gradient", cosine, 1.0, 1e-6),
        remedy="Differentiate the loss that is reported.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "loss_disconnected",
    Stage.LOSS,
    "the loss that is read is not the one that is followed",
    judge,
    ("reported",),
    overlaps=("ascent",),
    changes_printed_loss=True,
)
