"""The model is evaluated with dropout on.

What it means
    Nobody has called `eval()` before the evaluation, or a dropout ignores the mode of its module.

Why training fails
    It does not: the weights do not depend on this number. But it is worse than the model is, and
    different each time.

How it is judged
    Recorded evaluations are done again with nothing dropped. Proven if dropout is at work in all of
    their batches and the reported loss is another one without.

How to fix
    Call `model.eval()` before the evaluation and `model.train()` after it; give `F.dropout` the
    mode of its module.

When this verdict is wrong
    When predictions are averaged over dropout on purpose.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import where_of
from lossleuth.causes.reported_numbers import (
    LEAST,
    UNHARMED,
    cross_entropies,
    finite,
    measured,
    nothing_measured,
    over_tokens,
    sound,
)
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, untested


def judge(evidence: Evidence) -> Judgement:
    """Compare reported losses with those of the same batches without dropout."""
    evaluations = measured(evidence)
    if not evaluations:
        return nothing_measured(evidence)
    dropped, partly, seen = [], 0, 0
    for _, metric, numbers in cross_entropies(evaluations):
        known = [n for n in numbers if finite(n, "undropped")]
        if not known:
            continue
        seen += 1
        changed = [n for n in known if n["mean"] != n["undropped"]]
        if changed and len(changed) == len(known):
            reported, right = over_tokens(known, "mean"), over_tokens(known, "undropped")
            floor = max(float(n["floor"]) for n in known)
            dropped.append((reported, right, floor, metric["place"], len(known)))
        partly += bool(changed) and len(changed) < len(known)
    if not seen:
        return untested("no reported number is a cross-entropy of known tokens")
    if partly:
        told = f"Dropout is on in some batches of {partly} evaluations and off in others"
        return Judgement(Status.BENIGN, f"{told}: that looks meant.")
    if not dropped:
        return sound(f"nothing is dropped in any of {seen} reported numbers", evidence)
    reported, right, floor, place, batches = max(dropped, key=lambda d: abs(d[0] - d[1]))
    told = (
        f"Dropout is on in all of {batches} evaluated batches: the reported loss is "
        f"{reported:.4f}, and {right:.4f} without."
    )
    if abs(reported - right) < LEAST:
        return Judgement(Status.BENIGN, f"{told} {LEAST:g} of difference would be worth a word.")
    return Judgement(
        Status.PROVEN,
        f"{told} {UNHARMED}",
        where_of(place),
        Wrongness("reported loss", reported, right, floor),
        remedy="Call `model.eval()` before the evaluation and `model.train()` after it.",
    )


CAUSE = Cause(
    "metric_train_mode",
    Stage.EVALUATION,
    "the model is evaluated with dropout on",
    judge,
    ("evaluations",),
)
