"""What the update does is taken back.

What it means
    After the optimizer's step something writes to the weights again: an older copy is loaded, an
    average is put in, a saved state is restored.

Why training fails
    The weights move by a small part of each update, or not at all.

How it is judged
    The weights at the beginning of the next step are compared with those that the update left. The
    share of the update that was taken back is counted along the update's own direction. Whether it
    matters is tried: with updates ten and a hundred times as long, what is left of them is longer.

How to fix
    Keep the other weights in a model of their own, and load them only for an evaluation.

When this verdict is wrong
    When weights are meant to follow slowly, as in some averaging optimizers; the trial decides.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    decided_by_trial,
    finite,
    first_place,
    update_place,
)
from lossleuth.findings.update import Undone
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_STEPS = Limit(2, "fewest recorded steps on which weights were compared")
MIN_SHARE = Limit(
    0.5,
    "least share of an update that is taken back, in the median",
    "picked by hand: a look-ahead optimizer takes half back at every fifth step or so",
)
ROUNDING = Limit(1e-6, "what rounding alone could make of the share")
WANTS = tuple(Change.of("scale_lr", factor=factor) for factor in (10.0, 100.0))


def judge(evidence: Evidence) -> Judgement:
    """Suspect it where most of an update is gone at the next step, and try longer updates."""
    found = [one for one in evidence.all(Undone) if math.isfinite(one.share)]
    if len(found) < MIN_STEPS:
        return untested(f"weights were compared after {len(found)} updates only")
    share = share_undone(found)
    if share < MIN_SHARE:
        return refuted(f"{share:.1%} of an update is taken back in the median, expected 0 %")
    fault = Judgement(
        Status.SUSPECTED,
        f"{share:.1%} of an update is taken back before the next step begins, in the median of "
        f"{len(found)} recorded steps; it should be 0 %.",
        first_place(place for one in found for place in one.places) or update_place(evidence),
        Wrongness("share of the update that is taken back", share, 0.0, float(ROUNDING)),
        remedy="Keep the other weights in a model of their own.",
    )
    return decided_by_trial(evidence, fault, WANTS)


def share_undone(found: Sequence[Undone]) -> float:
    """The share of an update that is taken back in the median of the recorded steps."""
    return statistics.median(finite(one.share for one in found) or [0.0])


CAUSE = Cause(
    "update_undone",
    Stage.OPTIMIZER,
    "something takes back what the update did",
    judge,
    needs=(Undone,),
    limits=(MIN_STEPS, MIN_SHARE, ROUNDING, MIN_EFFECT_NATS),
    overlaps=("lr_too_low", "stale_parameters", "never_steps"),
)
