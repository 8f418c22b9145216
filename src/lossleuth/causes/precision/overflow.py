"""A value goes beyond its format.

What it means
    An operation turns finite numbers into infinity or NaN: an exponential without subtracting the
    maximum, float16 beyond 65 504, a logarithm of 0, a division by 0.

Why training fails
    One NaN in a gradient turns weights into NaN, and they stay so.

How it is judged
    The first step that goes wrong is recorded by running to it again, and replayed operation by
    operation. The first that makes non-finite numbers of finite ones is named. Proven by that alone
    where its inputs are of an ordinary size, as all are in float16, or no loss was ever finite.
    Where they have exploded before, overflow is a consequence, and the rate or the initialisation
    is the cause.

How to fix
    Use the stable form (log_softmax, logsumexp), a wider type, or loss scaling.

When this verdict is wrong
    When the program handles the value afterwards; then the loss is finite, and nothing is said.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import finite
from lossleuth.findings.precision import FirstNonFinite
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MAX_INPUT = Limit(1e5, "largest input of an operation that has not exploded before")


def judge(evidence: Evidence) -> Judgement:
    """Look at the first operation that went wrong."""
    losses = evidence.losses
    norms = [step.grad_norm for step in evidence.steps if step.grad_norm is not None]
    bad_losses, bad_norms = (len(x) - len(finite(x)) for x in (losses, norms))
    skipped = sum(len(step.skipped_by or ()) for step in evidence.steps)
    if not losses and not norms:
        return untested("no loss and no gradient was seen")
    if not bad_losses and not bad_norms:
        return refuted(f"all of {len(losses)} losses and their gradients are finite")
    if skipped and not bad_losses and bad_norms <= skipped:
        return refuted(f"{skipped} updates with non-finite gradients were skipped by the scaler")
    found = evidence.all(FirstNonFinite)
    if not found:
        return untested("the operation that went wrong first was not recorded")
    first = found[0]
    empty = any(step.supervised == 0 or step.unsupervised for step in evidence.steps)
    if empty and (first.name.startswith("nll") or not first.largest_input):
        return refuted("the loss is a mean over 0 targets: see labels_all_masked")
    because = (
        f"{first.name} makes {first.what} of finite numbers of up to {first.largest_input:.3g}, "
        "the first such operation; its result should be finite."
    )
    if first.largest_input > MAX_INPUT and finite(losses):
        return refuted(f"{because} Its inputs had exploded before: a consequence, not the cause")
    return Judgement(
        Status.PROVEN,
        because,
        Where(first.file, first.line, first.module),
        Wrongness("largest input of the operation", first.largest_input, float(MAX_INPUT), 0.0),
        remedy="Use the stable form of this operation, or a wider type.",
    )


CAUSE = Cause(
    "overflow",
    Stage.PRECISION,
    "a value goes beyond its format",
    judge,
    uses=(FirstNonFinite,),
    limits=(MAX_INPUT,),
    overlaps=("labels_all_masked", "lr_too_high", "init_too_large"),
    relies_on=(
        "loss scaling",
        "lookups",
    ),
)
