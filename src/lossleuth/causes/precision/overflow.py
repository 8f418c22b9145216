"""A value goes beyond its format.

What it means
    An operation turns finite numbers into infinity or NaN: an exponential without its maximum taken
    off, half precision beyond 65 504, a logarithm of 0, a division by 0.

Why training fails
    One NaN in a gradient makes every weight NaN, for good.

How it is judged
    The first step that goes wrong is recorded by running to it again, and replayed operation by
    operation. The first that makes non-finite numbers of finite ones is named. Proven by that alone
    where its inputs are of an ordinary size or its format is a small one; where they have exploded
    before, overflow is a consequence, and the rate or the initialisation is the cause.

How to fix
    Use the stable form (log_softmax, logsumexp), a wider type, or loss scaling.

When this verdict is wrong
    When the program handles the value afterwards; then the loss is finite, and nothing is said.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import finite
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

# Inputs beyond this have exploded in an ordinary format.
ORDINARY = 1e5


def judge(evidence: Evidence) -> Judgement:
    """Look at the first operation that went wrong."""
    losses = evidence.series("loss")
    bad = [x for x in losses if not math.isfinite(x)]
    norms = [x for x in evidence.series("grad_norm") if not math.isfinite(x)]
    skipped = sum(len(s.get("skipped_by") or ()) for s in evidence.steps)
    found = [w["first_non_finite"] for w in evidence.windows if w.get("first_non_finite")]
    if not losses and not evidence.series("grad_norm"):
        return untested("no loss and no gradient was seen")
    if not bad and not norms:
        return refuted(f"all of {len(losses)} losses and their gradients are finite")
    if skipped and not bad and len(norms) <= skipped:
        return refuted(f"{skipped} updates with non-finite gradients were skipped by the scaler")
    if not found:
        return untested("the operation that went wrong first was not recorded")
    first = found[0]
    empty = any(s.get("supervised") == 0 or s.get("unsupervised") for s in evidence.steps)
    if empty and (first["name"].startswith("nll") or not first["largest_input"]):
        return refuted("the loss is a mean over 0 targets: see labels_all_masked")
    start = finite(losses)[:1]
    because = (
        f"{first['name']} makes {first['what']} of finite numbers of up to "
        f"{first['largest_input']:.3g}, the first such operation; it should stay finite."
    )
    where = Where(first["file"], first["line"], first["module"])
    wrongness = Wrongness("largest input of the operation", first["largest_input"], ORDINARY, 0.0)
    remedy = "Use the stable form of this operation, or a wider type."
    if first["largest_input"] > ORDINARY and start:
        return refuted(f"{because} Its inputs had exploded before: a consequence, not the cause")
    return Judgement(Status.PROVEN, because, where, wrongness, remedy=remedy)


CAUSE = Cause(
    "overflow",
    Stage.PRECISION,
    "a value goes beyond its format",
    judge,
    ("first_non_finite",),
    overlaps=("labels_all_masked", "lr_too_high", "init_too_large"),
)
