"""Probabilities are fed to a loss that applies softmax again.

What it means
    What goes into the loss's softmax is itself the result of one: no entry is negative, and the
    entries of a row sum to 1.

Why training fails
    A softmax of numbers between 0 and 1 can prefer no class by more than a factor of e: the loss
    cannot fall below ln(V - 1 + e) - 1, and gradients shrink as the model gets surer.

How it is judged
    On every recorded step, the rows that enter the loss's softmax are non-negative and sum to 1 to
    rounding. Scores of a model do neither. Proven by that alone: the loss cannot reach 0.

How to fix
    Give the loss the scores, or take the logarithm of the probabilities with `nll_loss`.

When this verdict is wrong
    It has no known exception.
"""

from __future__ import annotations

import math

from lossleuth.causes.edits import without_softmax
from lossleuth.causes.reasoning import vocabulary, where_of
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

ROUNDING = 1e-3


def judge(evidence: Evidence) -> Judgement:
    """Look at what enters the softmax."""
    known = [s for s in evidence.probed("softmaxes") if s.get("untested") is None]
    if not known:
        return untested("no softmax of a loss was recorded")
    gaps = [s["probability_gap"] for s in known]
    scores = sum(gap is None or gap > ROUNDING for gap in gaps)
    if scores:
        return refuted(
            "what enters the loss's softmax are no probabilities (none below 0, sum 1) on "
            f"{scores} of {len(gaps)} recorded steps"
        )
    classes = vocabulary(evidence) or 2
    lowest = math.log(classes - 1 + math.e) - 1
    because = (
        "What enters the loss's softmax are probabilities already: rows sum to 1 within "
        f"{max(gaps):.1e} on {len(gaps)} recorded steps. Such a loss cannot fall below "
        f"{lowest:.3f} with {classes} classes; it should be able to reach 0."
    )
    return Judgement(
        Status.PROVEN,
        because,
        where_of(known[-1].get("inner_place") or known[-1].get("place")),
        Wrongness("lowest loss that can be reached", lowest, 0.0, max(gaps)),
        remedy="Give the loss the scores before the softmax.",
        cure=Change.of("skip_softmax"),
    )


CAUSE = Cause(
    "double_softmax",
    Stage.LOSS,
    "probabilities fed to a loss that applies softmax again",
    judge,
    ("softmaxes",),
    fix=without_softmax,
    changes_printed_loss=True,
)
