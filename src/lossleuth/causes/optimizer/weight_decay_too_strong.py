"""Weight decay outweighs the gradient.

What it means
    Each step pulls the weights towards 0 as hard as the loss pulls them anywhere else.

Why training fails
    What is learnt decays before it adds up: weights shrink until the logits say little, and the
    loss stays high.

How it is judged
    By the share of decay in an update: rate × decay × weight beside the update, where decay is
    apart from the gradient, and decay × weight beside the gradient, where it is added to that.
    Whether it matters is tried: the same run without decay. No decay often fits the batches better
    that are seen; so the share alone is no fault, and a gain alone is none.

How to fix
    Take the usual 0.01 to 0.1 for AdamW; look whether decay and another argument were mixed up.

When this verdict is wrong
    When few examples are gone through many times and the loss on others is what counts: decay is
    there to hold back the loss that is seen.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    decided_by_trial,
    finite,
    optimizer_place,
    setting_place,
    sure_gain,
)
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_STEPS = Limit(8, "fewest steps at which decay was compared with the update")
MIN_SHARE = Limit(0.3, "least share of decay in an update, in the median, with which it is tried")
MIN_OF_GRADIENT = Limit(
    1.0, "least ratio of decay to gradient, in the median, where decay is added to the gradient"
)
CURE = Change.of("no_decay")


def judge(evidence: Evidence) -> Judgement:
    """Weigh decay against updates and gradients, and try the run without."""
    decays = finite(group.weight_decay for group in evidence.settings.groups)
    if not decays:
        return untested("no optimizer with a weight decay was seen")
    decay = max(decays)
    if not decay:
        return refuted("weight decay is 0")
    shares, ratios = list(_of_updates(evidence, decay)), list(_of_gradients(evidence, decay))
    if min(len(shares), len(ratios)) < MIN_STEPS:
        return untested(f"decay was compared with the update on {len(shares)} steps only")
    share, ratio = statistics.median(shares), statistics.median(ratios)
    if share < MIN_SHARE and (ratio < MIN_OF_GRADIENT or sure_gain(evidence, [CURE]) is None):
        return refuted(
            f"a weight decay of {decay:.3g} makes {share:.1%} of an update in the median, and is "
            f"{ratio:.2g} times the gradient"
        )
    apart = share >= MIN_SHARE
    measured = f"{share:.0%} of an update" if apart else f"{ratio:.2g} times the gradient"
    fault = Judgement(
        Status.SUSPECTED,
        f"A weight decay of {decay:.3g} makes {measured}, in the median of {len(shares)} steps; it "
        "should be a small part.",
        setting_place(evidence, "weight_decay") or optimizer_place(evidence),
        Wrongness(
            "share of decay in an update" if apart else "decay beside the gradient",
            share if apart else ratio,
            0.0,
            float(MIN_SHARE if apart else MIN_OF_GRADIENT),
        ),
        remedy="Lower the weight decay.",
    )
    return decided_by_trial(evidence, fault, [CURE])


def _of_updates(evidence: Evidence, decay: float) -> Iterator[float]:
    """How large rate × decay × weight is beside the update, step by step."""
    readings = evidence.readings
    rows = zip(evidence.steps, readings.weight_rms, readings.update_rms, strict=False)
    for step, weights, updates in rows:
        if step.lr is None:
            continue
        size = _ratio(evidence.sizes, weights, updates)
        if size is not None:
            yield step.lr * decay * size


def _of_gradients(evidence: Evidence, decay: float) -> Iterator[float]:
    """How large decay × weight is beside the gradient, step by step."""
    readings = evidence.readings
    for weights, gradients in zip(readings.weight_rms, readings.grad_rms, strict=False):
        size = _ratio(evidence.sizes, weights, gradients)
        if size is not None:
            yield decay * size


def _ratio(sizes: Sequence[int], over: Sequence[float], under: Sequence[float]) -> float | None:
    """Of two sizes over all elements of all tensors that have both."""
    known = [
        (size * a * a, size * b * b)
        for size, a, b in zip(sizes, over, under, strict=False)
        if math.isfinite(a) and math.isfinite(b) and b > 0
    ]
    below = sum(b for _, b in known)
    return math.sqrt(sum(a for a, _ in known) / below) if below else None


CAUSE = Cause(
    "weight_decay_too_strong",
    Stage.OPTIMIZER,
    "weight decay outweighs the gradient",
    judge,
    limits=(MIN_STEPS, MIN_SHARE, MIN_OF_GRADIENT, MIN_EFFECT_NATS),
    overlaps=("lr_too_high", "update_rule_wrong"),
)
