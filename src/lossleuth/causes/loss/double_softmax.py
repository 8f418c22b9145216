"""Probabilities are fed to a loss that applies softmax again.

What it means
    The input of the loss's softmax is itself the output of one: no entry is negative, and the
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
from lossleuth.causes.reasoning import finite, vocabulary, where_of
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Softmaxes
from lossleuth.types.cause import Cause, Limit, always
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted

MAX_SUM_ERROR = Limit(1e-3, "largest distance from 1 of the sum of a row of probabilities")


def judge(evidence: Evidence) -> Judgement:
    """Look at what enters the softmax."""
    known = evidence.all(Softmaxes)
    gaps = [gap for gap in finite(s.probability_gap for s in known) if gap <= MAX_SUM_ERROR]
    scores = len(known) - len(gaps)
    if scores:
        return refuted(
            "the loss's softmax gets scores, not probabilities (none below 0, sum 1), on "
            f"{scores} of {len(known)} recorded steps"
        )
    classes = vocabulary(evidence) or 2
    lowest = math.log(classes - 1 + math.e) - 1
    because = (
        "The loss's softmax gets probabilities already: rows sum to 1 within "
        f"{max(gaps):.1e} on {len(gaps)} recorded steps. Such a loss cannot fall below "
        f"{lowest:.3f} with {classes} classes; it should be able to reach 0."
    )
    return Judgement(
        Status.PROVEN,
        because,
        where_of(known[-1].inner_place or known[-1].place),
        Wrongness("lowest loss that can be reached", lowest, 0.0, max(gaps)),
        remedy="Give the loss the scores before the softmax.",
        cure=Change.of("skip_softmax"),
    )


CAUSE = Cause(
    "double_softmax",
    Stage.LOSS,
    "probabilities fed to a loss that applies softmax again",
    judge,
    needs=(Softmaxes,),
    uses=(TrueLoss,),
    limits=(MAX_SUM_ERROR,),
    fix=without_softmax,
    changes_printed_loss=True,
    is_core=always,
)
