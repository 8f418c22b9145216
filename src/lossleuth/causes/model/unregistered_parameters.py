"""Tensors that the model uses and that no optimizer has.

What it means
    Layers in a plain list, parameters made after the optimizer, tensors that no module knows: they
    get gradients, and no optimizer applies them.

Why training fails
    They keep their first values.

How it is judged
    Leaves that get a gradient in recorded steps and are in no optimizer, while everything that the
    optimizers hold is in use. A trial shows whether it matters: the same run with them trained as
    well.

How to fix
    Use `nn.ModuleList` and `nn.Parameter`; make the optimizer after the model is complete.

When this verdict is wrong
    When a part is left out on purpose without being frozen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    decided_by_trial,
    first_place,
    optimizer_place,
)
from lossleuth.findings.update import Coverage
from lossleuth.types.cause import Cause, Limit, always
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MIN_MISSING_SHARE = Limit(1e-6, "least share of the squared gradient that no optimizer applies")
CURE = Change.of("add_missing_parameters")
# A cure that lets what the program had frozen get gradients.
UNFREEZES = "train_everything"


def judge(evidence: Evidence) -> Judgement:
    """Look for leaves with gradients that no optimizer updates."""
    if any(cure.name == UNFREEZES for cure in evidence.cures):
        return untested("a cure lets what the program had frozen get gradients")
    known = [c for c in evidence.all(Coverage) if math.isfinite(c.missing_share)]
    if not known:
        return untested("no recorded step has a finite gradient")
    last = known[-1]
    missing = last.missing
    if not missing or last.missing_share < MIN_MISSING_SHARE:
        return refuted(
            f"{last.missing_share:.0%} of the gradient, by square, is of tensors in no optimizer"
        )
    if last.by_hand and not _never_updated(known):
        return refuted(
            f"every tensor that gets a gradient moves on one or more of {len(known)} recorded steps"
        )
    if last.unused_match_missing or last.unused:
        return refuted(
            f"the optimizer holds other copies of what is used, {last.unused} of them not in "
            "use: see stale_parameters"
        )
    elements = sum(tensor.elements for tensor in missing)
    because = (
        f"{len(missing)} tensors with {elements} elements get gradients ({last.missing_share:.0%} "
        f"of the whole, by square) and are in no optimizer, such as {missing[0].name}."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        _where(evidence, last),
        Wrongness("share of the gradient without update", last.missing_share, 0.0, 0.0),
        remedy="Register these tensors with the model and give them to the optimizer.",
    )
    return decided_by_trial(evidence, fault, [CURE])


def _never_updated(known: Sequence[Coverage]) -> set[tuple[str, int]]:
    """What was missing on each of several recorded steps: updates by hand may take turns."""
    missing = [{(tensor.name, tensor.key) for tensor in one.missing} for one in known]
    return set.intersection(*missing) if len(missing) > 1 else set()


def _where(evidence: Evidence, found: Coverage) -> Where | None:
    """What hides them from `parameters()`, else the optimizer without them, else their first use.

    A module that knows them leaves only the optimizer to blame.
    """
    hidden = first_place([found.missing_hidden_at])
    left_out = optimizer_place(evidence) if found.missing_registered else None
    used = found.missing[0]
    return hidden or left_out or Where(used.file, used.line, used.module)


CAUSE = Cause(
    "unregistered_parameters",
    Stage.MODEL,
    "tensors that the model uses and no optimizer has",
    judge,
    needs=(Coverage,),
    limits=(MIN_MISSING_SHARE, MIN_EFFECT_NATS),
    overlaps=("stale_parameters", "parameters_frozen"),
    is_core=always,
)
