"""Tensors that the model uses and that no optimizer has.

What it means
    Layers in a plain list, parameters made after the optimizer, tensors that no module knows: they
    get gradients, and nobody applies them.

Why training fails
    They stay as they were made.

How it is judged
    Leaves that get a gradient in recorded steps and are in no optimizer, while everything that the
    optimizers hold is in use. Whether it matters is tried: the same run with them trained as well.

How to fix
    Use `nn.ModuleList` and `nn.Parameter`; make the optimizer after the model is complete.

When this verdict is wrong
    When a part is left out on purpose without being frozen.
"""

from __future__ import annotations

import math
from typing import Any

from lossleuth.causes.reasoning import decided_by_trial, first_place, optimizer_place
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

LEAST = 1e-6
CURE = Change.of("add_missing_parameters")
# A cure that has gradients taken of what the program meant to leave alone.
UNFREEZES = "train_everything"


def judge(evidence: Evidence) -> Judgement:
    """Look for leaves with gradients that nobody updates."""
    if any(cure.name == UNFREEZES for cure in evidence.cures):
        return untested("a cure has gradients taken of what the program had frozen")
    known = [c for c in evidence.probed("coverage") if math.isfinite(c["missing_share"])]
    if not known:
        return untested("no step with a backward pass and an update was recorded")
    last = known[-1]
    missing = last["missing"]
    if not missing or last["missing_share"] < LEAST:
        return refuted(
            f"{last['missing_share']:.0%} of the gradient, by square, is of tensors in no optimizer"
        )
    if last["unused_match_missing"] or last["unused"]:
        return refuted(
            f"the optimizer holds other copies of what is used, {last['unused']} of them not in "
            "use: see stale_parameters"
        )
    count = sum(m["elements"] for m in missing)
    because = (
        f"{len(missing)} tensors with {count} elements get gradients ({last['missing_share']:.0%} "
        f"of the whole, by square) and are in no optimizer, such as {missing[0]['name']}."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        _where(evidence, last),
        Wrongness("share of the gradient without update", last["missing_share"], 0.0, 0.0),
        remedy="Register these tensors with the model and give them to the optimizer.",
    )
    return decided_by_trial(evidence, fault, [CURE])


def _where(evidence: Evidence, found: Any) -> Where | None:
    """What hides them from `parameters()`; else who left them out; else where they are used."""
    hidden = first_place([found.get("missing_hidden_at")])
    left_out = optimizer_place(evidence) if found.get("missing_registered") else None
    used = found["missing"][0]
    return hidden or left_out or Where(used["file"], used["line"], used["module"])


CAUSE = Cause(
    "unregistered_parameters",
    Stage.MODEL,
    "tensors that the model uses and no optimizer has",
    judge,
    ("coverage",),
    overlaps=("stale_parameters", "parameters_frozen"),
)
