"""The metric compares at another offset than the loss does.

What it means
    The loss compares the scores of a position with the token after it; the loss or accuracy that is
    reported of an evaluation compares them with another one: not shifted, or shifted twice.

Why training fails
    It does not: the weights do not depend on this number. But it stays bad, or is good for nothing,
    however well the model predicts.

How it is judged
    Which token each position is compared with is taken from the derivative of the number for the
    scores, and for an accuracy from what the best guesses are compared with. Proven if that is the
    token at an offset other than that of the loss which is trained.

How to fix
    Shift labels once: compare the scores of a position with the token that follows it.

When this verdict is wrong
    When reproducing the input is what is to be measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lossleuth.causes.reasoning import where_of
from lossleuth.causes.reported_numbers import (
    UNHARMED,
    Numbers,
    cross_entropies,
    finite,
    measured,
    nothing_measured,
    over_tokens,
)
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

# Share of the targets that an offset has to explain, and that the next token may at most.
EXPLAINED, COINCIDENCE = 0.98, 0.9
FEWEST_TARGETS = 16


def judge(evidence: Evidence) -> Judgement:
    """Compare the offset of every metric with that of the loss."""
    if not any(e.get("metrics") or e.get("accuracies") for e in evidence.evaluations):
        return nothing_measured(evidence)
    known = [a for a in evidence.probed("alignment") if a.get("untested") is None]
    offsets = {a["offset"] for a in known if a.get("supervised", 0) >= 8}
    if offsets != {1}:
        return untested("the loss that is trained was not seen to compare with the next token")
    found, seen = [], 0
    right = set[int]()
    for evaluation, metric, numbers in cross_entropies(measured(evidence)):
        for number in numbers:
            if number["offset"] is None or number["count"] < FEWEST_TARGETS:
                continue
            seen += 1
            step = int(evaluation["step"])
            right |= {step} if number["offset"] == 1 else set()
            if _is_wrong(number) and finite(number, "mean", "aligned"):
                found.append((step, metric["place"], number))
    guesses = [a for e in evidence.evaluations for a in e.get("accuracies", ())]
    guesses = [a for a in guesses if a["count"] >= FEWEST_TARGETS and a["offset"] is not None]
    seen += len(guesses)
    # Heads that look further ahead are measured beside one for the next token.
    alone = [(place, number) for step, place, number in found if step not in right]
    if alone:
        place, _ = alone[-1]
        return _proven_loss(where_of(place), [n for p, n in alone if p == place])
    wrong = [a for a in guesses if _is_wrong(a) and finite(a, "value", "aligned")]
    if wrong:
        return _proven_accuracy(wrong[-1], len(wrong))
    if not seen:
        return untested("no metric compares with known tokens")
    compared = seen - len(found)
    return refuted(f"{compared} of {seen} metrics compare with the token after, as the loss does")


def _is_wrong(found: Mapping[str, Any]) -> bool:
    explained, following = found["explained"], found["next_explained"]
    return bool(found["offset"] != 1 and explained >= EXPLAINED and following < COINCIDENCE)


def _proven_loss(where: Where | None, numbers: Numbers) -> Judgement:
    last = numbers[-1]
    reported, right = over_tokens(numbers, "mean"), over_tokens(numbers, "aligned")
    because = (
        f"The reported loss compares with the token at offset {last['offset']} in "
        f"{last['explained']:.0%} of {last['count']} positions, the loss that is trained with that "
        f"at 1: it is {reported:.4f} instead of {right:.4f}. {UNHARMED}"
    )
    return Judgement(
        Status.PROVEN,
        because,
        where,
        Wrongness("offset of the metric's targets", float(last["offset"]), 1.0, 0.0),
        remedy="Compare the scores of a position with the token that follows it, shifted once.",
    )


def _proven_accuracy(last: Mapping[str, Any], times: int) -> Judgement:
    because = (
        f"The accuracy compares best guesses with the token at offset {last['offset']} in "
        f"{last['explained']:.0%} of {last['count']} positions, the loss that is trained with that "
        f"at 1: it is {last['value']:.4f} instead of {last['aligned']:.4f} (seen {times} times). "
        f"{UNHARMED}"
    )
    return Judgement(
        Status.PROVEN,
        because,
        where_of(last["place"]),
        Wrongness("offset of the metric's targets", float(last["offset"]), 1.0, 0.0),
        remedy="Compare the best guess at a position with the token that follows it.",
    )


CAUSE = Cause(
    "metric_offset",
    Stage.EVALUATION,
    "the metric compares at another offset than the loss",
    judge,
    ("evaluations", "alignment"),
)
