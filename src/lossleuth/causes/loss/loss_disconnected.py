"""The loss that is read is not the one whose gradient is followed.

What it means
    The number that the script prints depends on the parameters in another way than the one that is
    differentiated: another loss, an old copy, a term that was meant to be added.

Why training fails
    The optimizer lowers the loss that it is given, and the printed loss does not follow.

How it is judged
    The gradient of every number that the user's code reads is compared with that of what is
    differentiated. Where none points the same way, or the cross-entropy is among them, does not
    point that way and stands still, a trial follows the plain cross-entropy of the
    model's own logits instead, over paired seeds: proven if the true loss is lower then.

How to fix
    Call `backward` on the loss that is meant.

When this verdict is wrong
    When what is printed is only one of several terms and the others are meant to lead.
"""

from __future__ import annotations

import math
import statistics

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    backward_place,
    decided_by_trial,
    finite,
    true_losses,
    unigram,
    update_place,
    where_of,
)
from lossleuth.findings.gradient import LogitGradient, ReportedNumber
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.no_autograd import HandGradient
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_COSINE = Limit(0.5, "cosine of the two gradients above which they agree")
MIN_BEST_COSINE = Limit(0.75, "cosine on a single step above which losses take turns")
MAX_OPPOSITE = Limit(-0.99, "cosine below which the two gradients are opposites")
ROUNDING = Limit(1e-6, "error of a cosine that rounding alone could make")
SAME_NUMBER = Limit(1e-3, "relative difference up to which a number that is read is the true loss")
MIN_READ = Limit(2, "fewest recorded steps at which the true loss is read, to be left behind")
CURE = Change.of("follow_cross_entropy")


def judge(evidence: Evidence) -> Judgement:
    """Look for a number read whose gradient is the one that is followed."""
    read = _read(evidence)
    by_hand = finite(
        first.cosine
        for step in evidence.recorded
        if (first := step.first(HandGradient)) is not None
    )
    if not read and not by_hand:
        followed = finite(gradient.cosine for gradient in evidence.all(LogitGradient))
        if followed and max(followed) > MIN_COSINE:
            return refuted(
                "what is differentiated asks of the logits what cross-entropy asks "
                f"(cosine {max(followed):.3f}, expected 1)"
            )
        return untested("no number that depends on the parameters was read by the script")
    # Early on, many losses ask for the same: the median step decides.
    cosines = [cosine for cosine, _ in read] or by_hand
    cosine = statistics.median(cosines)
    if max(cosines) > MIN_BEST_COSINE:
        # Programs that take turns between losses follow each of them at times.
        cosine = max(cosines)
    left = _left_behind(evidence)
    if left:
        read, cosine = left, statistics.median(cosine for cosine, _ in left)
    elif cosine > MIN_COSINE or cosine < MAX_OPPOSITE:
        agreed = "agree" if cosine > 0 else "are opposites, which is ascent"
        return refuted(
            f"the gradient of what is read and of what is followed {agreed} (cosine {cosine:.4f}, "
            "expected 1)"
        )
    place = where_of(read[-1][1]) if read else None
    because = (
        f"The gradient of the number that the script reads has a cosine of {cosine:.3f} with "
        "the gradient that is followed; it should be near 1."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        # A gradient that is made by hand has no backward pass: it is used where it is taken.
        backward_place(evidence) or place or update_place(evidence),
        Wrongness("cosine of reported and followed gradient", cosine, 1.0, float(ROUNDING)),
        remedy="Differentiate the loss that is reported.",
    )
    return decided_by_trial(evidence, fault, [CURE])


def _left_behind(evidence: Evidence) -> list[tuple[float, str | None]]:
    """The readings of a cross-entropy that stands still and is not followed; none if there is none.

    Another number that is read may be followed: that of a term beside it.
    """
    found, known = [], true_losses(evidence)
    floor = unigram(evidence)
    losses = dict(known)
    for step in evidence.recorded:
        loss = losses.get(step.step)
        for number in step.all(ReportedNumber):
            if loss is None or number.value is None or number.cosine is None:
                continue
            if math.isclose(number.value, loss, rel_tol=SAME_NUMBER):
                found.append((number.cosine, number.place))
    if len(found) < MIN_READ or floor is None:
        return []
    if min(loss for _, loss in known) < max(floor, known[0][1]) - MIN_EFFECT_NATS:
        # It is learnt, whatever is followed.
        return []
    return found if max(abs(cosine) for cosine, _ in found) < MIN_COSINE else []


def _read(evidence: Evidence) -> list[tuple[float, str | None]]:
    """Of each recorded step, the number read that is most related: its cosine and its place."""
    best = []
    for step in evidence.recorded:
        numbers = [
            (number.cosine, number.place)
            for number in step.all(ReportedNumber)
            if number.cosine is not None and math.isfinite(number.cosine)
        ]
        if numbers:
            best.append(max(numbers, key=lambda number: abs(number[0])))
    return best


def _reads_a_number(evidence: Evidence) -> bool:
    """Whether the script reads a number that could be another than what it follows."""
    return any(step.all(ReportedNumber) for step in evidence.recorded)


CAUSE = Cause(
    "loss_disconnected",
    Stage.LOSS,
    "the loss that is read is not the one that is followed",
    judge,
    # Any of them is enough.
    uses=(ReportedNumber, HandGradient, LogitGradient, TrueLoss),
    limits=(
        MIN_COSINE,
        MIN_BEST_COSINE,
        MAX_OPPOSITE,
        ROUNDING,
        SAME_NUMBER,
        MIN_READ,
        MIN_EFFECT_NATS,
    ),
    relies_on=("lookups",),
    overlaps=("ascent",),
    changes_printed_loss=True,
    is_core=_reads_a_number,
)
