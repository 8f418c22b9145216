"""Rounding harms the gradient.

What it means
    Sums, softmaxes or products in a low precision make a gradient that is noticeably another one
    than exact arithmetic would make.

Why training fails
    It nearly never does: the noise of a batch is larger by orders of magnitude. It is here to be
    ruled out with a number.

How it is judged
    The step is replayed in float64 and in the recorded types: the distance of the two gradients is
    what rounding does. Only where it is a good part of the gradient is it tried whether exact
    gradients help.

How to fix
    Keep the operation with the largest error in float32.

When this verdict is wrong
    When the error is systematic and small, over very many steps.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import decided_by_trial, finite
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

# Share of the gradient that rounding has to be.
LEAST = 0.2
GAIN = 0.02
CURE = Change.of("follow_true_gradient")


def judge(evidence: Evidence) -> Judgement:
    """Look at what the replay in the recorded types loses."""
    truths = [t for w in evidence.windows for t in w.get("gradient_truth") or ()]
    floors = finite(t["floor"] for t in truths if t.get("untested") is None)
    if not floors:
        reasons = [t["untested"] for t in truths if t.get("untested")]
        return untested(reasons[0] if reasons else "no finite gradient was recorded")
    worst = max(floors)
    if not worst > LEAST:
        return refuted(f"rounding changes the gradient by {worst:.1e} of its size")
    errors = [e for w in evidence.windows for e in w.get("precision") or ()]
    first = max(errors, key=lambda e: e["error"], default=None)
    fault = Judgement(
        Status.SUSPECTED,
        f"Rounding changes the gradient by {worst:.0%} of its size; in float32 it is about 1e-7.",
        None if first is None else Where(first["file"], first["line"], first["module"]),
        Wrongness("share of the gradient that is rounding", worst, 0.0, 1e-6),
        remedy="Keep the operation with the largest error in float32.",
    )
    return decided_by_trial(evidence, fault, [CURE], least=GAIN)


CAUSE = Cause(
    "rounding_error",
    Stage.PRECISION,
    "rounding harms the gradient",
    judge,
    ("gradient_truth", "precision"),
    overlaps=("overflow",),
)
