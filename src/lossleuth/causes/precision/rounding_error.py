"""Rounding harms the gradient.

What it means
    Sums, softmaxes or products in low precision make a gradient that differs noticeably from that
    of exact arithmetic.

Why training fails
    It hardly ever does: the noise of a batch is larger by orders of magnitude. This cause exists to
    be ruled out with a number.

How it is judged
    The step is replayed in float64 and in the recorded types: the distance of the two gradients is
    what rounding does. Only where that is a good part of the gradient is it tried whether true
    gradients help.

How to fix
    Keep the operation with the largest error in float32.

When this verdict is wrong
    When the error is small and always points the same way, over very many steps.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import MIN_EFFECT_NATS, decided_by_trial, finite
from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.precision import OperationError
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MAX_ROUNDING = Limit(0.2, "largest share of the gradient that ordinary rounding changes")
MIN_SCALE = Limit(0.01, "share of the true gradient below which nothing of it is there")
CURE = Change.of("follow_true_gradient")


def judge(evidence: Evidence) -> Judgement:
    """Look at what the replay in the recorded types loses."""
    # A gradient of which nothing is there was not rounded: a model that is sure of itself has none.
    there = [x for x in evidence.all(GradientTruth) if not abs(x.scale) < MIN_SCALE]
    floors = finite(truth.floor for truth in there)
    if not floors:
        return untested("no finite gradient was recorded, or none above 0")
    worst = max(floors)
    if worst <= MAX_ROUNDING:
        return refuted(f"rounding changes the gradient by {worst:.1e} of its size")
    first = max(evidence.all(OperationError), key=lambda found: found.error, default=None)
    fault = Judgement(
        Status.SUSPECTED,
        f"Rounding changes the gradient by {worst:.0%} of its size; in float32 it is about 1e-7.",
        None if first is None else Where(first.file, first.line, first.module),
        Wrongness("share of the gradient that is rounding", worst, 0.0, 1e-6),
        remedy="Keep the operation with the largest error in float32.",
    )
    return decided_by_trial(evidence, fault, [CURE])


CAUSE = Cause(
    "rounding_error",
    Stage.PRECISION,
    "rounding harms the gradient",
    judge,
    needs=(GradientTruth,),
    uses=(OperationError,),
    limits=(MAX_ROUNDING, MIN_SCALE, MIN_EFFECT_NATS),
    overlaps=("overflow",),
)
