"""The update is not the one of the optimizer's rule.

What it means
    Bias correction is missing, weight decay is coupled where it should not be, moments are lost or
    mixed up: the step is not what the textbook rule gives for these settings.

Why training fails
    Steps are too long at first, too short later, or in another direction.

How it is judged
    The applied update is compared with the rule in float64, from the recorded state: torch's
    optimizers with their own plain code, others with the rules of the Adam family and SGD. If a
    flawed rule explains it, that rule is named. Whether it matters is tried: the same run with the
    textbook rule in float64. A rule that is merely unknown is blamed by that trial alone.

How to fix
    Correct the rule, or use torch's own optimizer.

When this verdict is wrong
    When the optimizer is another one on purpose, such as Lion or Muon; the trial decides.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    decided_by_trial,
    library_place,
    optimizer_place,
    rule_place,
)
from lossleuth.findings.update import UpdateLines, UpdateTruth
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_ERROR = Limit(1e-2, "least share of an update that the rule does not explain")
MIN_TIMES_FLOOR = Limit(30, "least such share, in multiples of rounding")
MIN_WRONG_SHARE = Limit(0.5, "share of the recorded updates that wrong ones have to exceed")
# Rules that are flawed by themselves.
FLAWED = ("without bias correction", "under the root")
WANTS = (Change.of("use_rule", rule="AdamW"), Change.of("use_rule", rule="SGD"))
MAX_PROGRESS = Limit(
    0.5, "largest share of a textbook rule's progress that an unknown rule makes if it is wrong"
)


def judge(evidence: Evidence) -> Judgement:
    """Look at what rule explains the updates of recorded steps."""
    known = [u for u in evidence.all(UpdateTruth) if u.update_norm and math.isfinite(u.error)]
    if not known:
        return untested("no finite update was recorded")
    wrong = [update for update in known if _is_wrong(update)]
    if len(wrong) <= MIN_WRONG_SHARE * len(known):
        best = known[-1]
        return refuted(f"updates are those of {best.rule} within {best.error:.1e}")
    last = wrong[-1]
    because = (
        f"{len(wrong)} of {len(known)} recorded updates by {last.optimizer} are not what a sound "
        f"rule gives: {last.rule} explains them best and leaves {last.error:.1%} unexplained; "
        "expected 0 % of Adam, AdamW or SGD."
    )
    unexplained = Wrongness(
        "share of the update that no rule explains", last.error, 0.0, last.floor
    )
    flawed = any(flaw in last.rule for flaw in FLAWED)
    fault = Judgement(
        Status.SUSPECTED,
        because,
        library_place(evidence) or rule_place(evidence) or optimizer_place(evidence),
        # Another rule is nothing wrong by itself: only a trial tells.
        unexplained if flawed else None,
        remedy="Correct the rule, or use torch's own optimizer.",
    )
    decided = decided_by_trial(evidence, fault, WANTS)
    harm = decided.harm
    proven = decided.status is Status.PROVEN
    # An unknown rule that learns is another rule, and no wrong one.
    if proven and harm is not None and not flawed and harm.makes_without(MAX_PROGRESS):
        return refuted(f"an unknown rule that learns by itself: {harm.sentence}")
    if decided.status is Status.BENIGN and not flawed:
        return refuted(f"another rule on purpose, or one that does no harm: {decided.because}")
    return replace(decided, wrongness=unexplained) if proven else decided


def _has_an_optimizer(evidence: Evidence) -> bool:
    """Updates that the program makes by hand follow a rule that nobody knows."""
    return bool(evidence.settings.groups)


def _is_wrong(update: UpdateTruth) -> bool:
    if update.explained and any(flaw in update.rule for flaw in FLAWED):
        return True
    return update.error > MIN_ERROR and update.error > MIN_TIMES_FLOOR * update.floor


CAUSE = Cause(
    "update_rule_wrong",
    Stage.OPTIMIZER,
    "the update is not the one of the optimizer's rule",
    judge,
    needs=(UpdateTruth,),
    uses=(UpdateLines,),
    limits=(MIN_ERROR, MIN_TIMES_FLOOR, MIN_WRONG_SHARE, MIN_EFFECT_NATS, MAX_PROGRESS),
    overlaps=("ascent", "lr_too_high", "lr_too_low", "update_swallowed"),
    is_core=_has_an_optimizer,
)
