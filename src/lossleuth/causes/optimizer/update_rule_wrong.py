"""The update is not the one of the optimizer's rule.

What it means
    Bias correction is missing, decay is coupled where it should not be, moments are lost or mixed
    up: the step is not what the textbook says for these settings.

Why training fails
    Steps are too long at first, too short later, or in another direction.

How it is judged
    The applied update against the rule in float64 from the recorded state: torch's optimizers
    against their own plain code, others against the rules of the Adam family and SGD. A rule known
    to be flawed that explains it is named. Whether it matters is tried: the same run with the
    textbook rule in float64.

How to fix
    Correct the rule, or use torch's own optimizer.

When this verdict is wrong
    When the optimizer is another one on purpose, such as Lion or Muon; the trial decides.
"""

from __future__ import annotations

import math
from typing import Any

from lossleuth.causes.reasoning import (
    decided_by_trial,
    library_place,
    optimizer_place,
    rule_place,
)
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

TIMES_FLOOR, LEAST = 30.0, 1e-2
# Rules that are flawed by themselves.
FLAWED = ("without bias correction", "under the root")
WANTS = (Change.of("use_rule", rule="AdamW"), Change.of("use_rule", rule="SGD"))
GAIN = 0.05
# Of the progress that a textbook rule makes, what an unknown one makes at most to be wrong.
PROGRESS = 0.5


def judge(evidence: Evidence) -> Judgement:
    """Look at what rule explains the updates of recorded steps."""
    known = [u for w in evidence.windows for u in w.get("updates") or ()]
    known = [u for u in known if u["update_norm"] and math.isfinite(u["error"])]
    if not known:
        return untested("no finite update was recorded")
    wrong = [u for u in known if _is_wrong(u)]
    if len(wrong) * 2 <= len(known):
        best = known[-1]
        return refuted(f"updates are those of {best['rule']} within {best['error']:.1e}")
    last = wrong[-1]
    told = f"the rule that explains it best is {last['rule']}, leaving {last['error']:.1%}"
    because = (
        f"{len(wrong)} of {len(known)} recorded updates by {last['optimizer']} are not what a "
        f"sound rule gives: {told}; expected 0 % of Adam, AdamW or SGD."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        library_place(evidence) or rule_place(evidence) or optimizer_place(evidence),
        Wrongness("share of the update that no rule explains", last["error"], 0.0, last["floor"]),
        remedy="Correct the rule, or use torch's own optimizer.",
    )
    decided = decided_by_trial(evidence, fault, WANTS, least=GAIN)
    flawed = any(flaw in last["rule"] for flaw in FLAWED)
    harm = decided.harm
    proven = decided.status is Status.PROVEN
    # An unknown rule that learns is another rule, and no wrong one.
    if proven and harm is not None and not flawed and harm.makes_without(PROGRESS):
        return refuted(f"an unknown rule that learns by itself: {harm.sentence}")
    if decided.status is Status.BENIGN and not flawed:
        return refuted(f"another rule on purpose, or one that does no harm: {decided.because}")
    return decided


def _is_wrong(update: Any) -> bool:
    if any(flaw in update["rule"] for flaw in FLAWED) and update.get("untested") is None:
        return True
    error, floor = update["error"], update["floor"]
    return bool(error > LEAST and error > TIMES_FLOOR * floor)


CAUSE = Cause(
    "update_rule_wrong",
    Stage.OPTIMIZER,
    "the update is not the one of the optimizer's rule",
    judge,
    ("updates",),
    overlaps=("ascent", "lr_too_high", "lr_too_low", "update_swallowed"),
)
