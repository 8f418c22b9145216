"""The model is evaluated with dropout on.

What it means
    Nothing calls `eval()` before the evaluation, or a dropout ignores the mode of its module.

Why training fails
    It does not: the weights do not depend on this number. But the number is worse than the model
    is, and different each time.

How it is judged
    Recorded evaluations are computed again without dropout. Proven if dropout is on in all of their
    batches and the reported loss is another one without it.

How to fix
    Call `model.eval()` before the evaluation and `model.train()` after it; give `F.dropout` the
    mode of its module.

When this verdict is wrong
    When predictions are averaged over dropout on purpose.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import where_of
from lossleuth.causes.reported_numbers import (
    MIN_DIFFERENCE_NATS,
    REPORTED_LIMITS,
    UNHARMED,
    cross_entropies,
    is_finite,
    measured,
    nothing_measured,
    over_tokens,
    sound,
)
from lossleuth.findings.evaluation import Evaluation
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, untested


def judge(evidence: Evidence) -> Judgement:
    """Compare reported losses with those of the same batches without dropout."""
    evaluations = measured(evidence)
    if not evaluations:
        return nothing_measured(evidence)
    dropped: list[tuple[float, float, float, str | None, int]] = []
    partly, count = 0, 0
    for reported in cross_entropies(evaluations):
        known = [
            (n.mean, n.undropped, n.count, n.floor)
            for n in reported.numbers
            if is_finite(n.mean) and is_finite(n.undropped)
        ]
        if not known:
            continue
        count += 1
        changed = sum(mean != undropped for mean, undropped, _, _ in known)
        if changed == len(known):
            loss = over_tokens((mean, tokens) for mean, _, tokens, _ in known)
            right = over_tokens((undropped, tokens) for _, undropped, tokens, _ in known)
            floor = max(floor for *_, floor in known)
            dropped.append((loss, right, floor, reported.metric.place, len(known)))
        partly += 0 < changed < len(known)
    if not count:
        return untested("no reported number is a cross-entropy of known tokens")
    if partly:
        return Judgement(
            Status.BENIGN,
            f"Dropout is on in some batches of {partly} evaluations and off in others: that looks "
            "intended.",
        )
    if not dropped:
        return sound(f"there is no dropout in any of {count} reported numbers", evidence)
    loss, right, floor, place, batches = max(dropped, key=lambda d: abs(d[0] - d[1]))
    because = (
        f"Dropout is on in all of {batches} evaluated batches: the reported loss is {loss:.4f}, "
        f"and {right:.4f} without."
    )
    if abs(loss - right) < MIN_DIFFERENCE_NATS:
        because += f" A difference of {MIN_DIFFERENCE_NATS:g} or more would matter."
        return Judgement(Status.BENIGN, because)
    return Judgement(
        Status.PROVEN,
        f"{because} {UNHARMED}",
        where_of(place),
        Wrongness("reported loss", loss, right, floor),
        remedy="Call `model.eval()` before the evaluation and `model.train()` after it.",
    )


CAUSE = Cause(
    "metric_train_mode",
    Stage.EVALUATION,
    "the model is evaluated with dropout on",
    judge,
    uses=(Evaluation,),
    limits=(MIN_DIFFERENCE_NATS, *REPORTED_LIMITS),
)
