"""The metric compares with another token than the loss does.

What it means
    The loss compares the scores of a position with the next token. The loss or accuracy that an
    evaluation reports compares them with another one: not shifted, or shifted twice.

Why training fails
    It does not: the weights do not depend on this number. But the number stays bad, or means
    nothing, however well the model predicts.

How it is judged
    Which token each position is compared with is taken from the derivative of the number with
    respect to the scores; for an accuracy, from what the best guesses are compared with. Proven if
    that is the token at another offset than in the training loss.

How to fix
    Shift labels once: compare the scores of a position with the token that follows it.

When this verdict is wrong
    When the metric is meant to measure how well the input is reproduced.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import where_of
from lossleuth.causes.reported_numbers import (
    REPORTED_LIMITS,
    UNHARMED,
    cross_entropies,
    is_finite,
    measured,
    nothing_measured,
    over_tokens,
)
from lossleuth.findings.data import Alignment
from lossleuth.findings.evaluation import Accuracy, Evaluation, MetricValue
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MIN_EXPLAINED = Limit(0.98, "least share of the metric's targets that its offset has to explain")
MAX_BY_NEXT = Limit(0.9, "largest share that the next token may explain at the same time")
MIN_TARGETS = Limit(16, "fewest targets of a metric that is looked at")
MIN_TRAINED_TARGETS = Limit(8, "fewest supervised targets of a training step that is looked at")


def judge(evidence: Evidence) -> Judgement:
    """Compare the offset of every metric with that of the loss."""
    if not any(_has_numbers(seen.evaluation) for seen in evidence.evaluations):
        return nothing_measured(evidence)
    known = [a for a in evidence.all(Alignment) if a.supervised >= MIN_TRAINED_TARGETS]
    if {alignment.offset for alignment in known} != {1}:
        return untested("the training loss was not seen to compare with the next token")
    wrong: list[tuple[int, str | None, MetricValue]] = []
    right, count = set[int](), 0
    for reported in cross_entropies(measured(evidence)):
        step = reported.seen.step
        for number in reported.numbers:
            if number.offset is None or number.count < MIN_TARGETS:
                continue
            count += 1
            right |= {step} if number.offset == 1 else set()
            if _is_wrong(number) and is_finite(number.aligned):
                wrong.append((step, reported.metric.place, number))
    # Heads that predict further ahead are measured beside one for the next token.
    alone = [(place, number) for step, place, number in wrong if step not in right]
    if alone:
        place, _ = alone[-1]
        return _proven_loss(where_of(place), [n for p, n in alone if p == place])
    guesses = [a for seen in evidence.evaluations for a in seen.evaluation.accuracies]
    guesses = [a for a in guesses if a.count >= MIN_TARGETS and a.offset is not None]
    misplaced = [a for a in guesses if _is_wrong(a) and is_finite(a.value)]
    misplaced = [a for a in misplaced if is_finite(a.aligned)]
    if misplaced:
        return _proven_accuracy(misplaced[-1], len(misplaced))
    count += len(guesses)
    if not count:
        return untested("no metric compares with known tokens")
    return refuted(
        f"{count - len(wrong)} of {count} metrics compare with the next token, as the loss does"
    )


def _has_numbers(evaluation: Evaluation) -> bool:
    return bool(evaluation.metrics or evaluation.accuracies)


def _is_wrong(found: MetricValue | Accuracy) -> bool:
    return (
        found.offset != 1
        and found.explained >= MIN_EXPLAINED
        and found.next_explained < MAX_BY_NEXT
    )


def _proven_loss(where: Where | None, numbers: list[MetricValue]) -> Judgement:
    last = numbers[-1]
    reported = over_tokens((n.mean, n.count) for n in numbers if n.mean is not None)
    right = over_tokens((n.aligned, n.count) for n in numbers if n.aligned is not None)
    because = (
        f"The reported loss compares with the token at offset {last.offset} in "
        f"{last.explained:.0%} of {last.count} positions, the training loss with that at offset 1: "
        f"it is {reported:.4f} instead of {right:.4f}. {UNHARMED}"
    )
    return Judgement(
        Status.PROVEN,
        because,
        where,
        Wrongness("offset of the metric's targets", float(last.offset or 0), 1.0, 0.0),
        remedy="Compare the scores of a position with the token that follows it, shifted once.",
    )


def _proven_accuracy(last: Accuracy, times: int) -> Judgement:
    because = (
        f"The accuracy compares best guesses with the token at offset {last.offset} in "
        f"{last.explained:.0%} of {last.count} positions, the training loss with that at offset 1: "
        f"it is {last.value:.4f} instead of {last.aligned:.4f} (seen {times} times). {UNHARMED}"
    )
    return Judgement(
        Status.PROVEN,
        because,
        where_of(last.place),
        Wrongness("offset of the metric's targets", float(last.offset or 0), 1.0, 0.0),
        remedy="Compare the best guess at a position with the token that follows it.",
    )


CAUSE = Cause(
    "metric_offset",
    Stage.EVALUATION,
    "the metric compares with another token than the loss",
    judge,
    needs=(Alignment,),
    uses=(Evaluation,),
    limits=(MIN_EXPLAINED, MAX_BY_NEXT, MIN_TARGETS, MIN_TRAINED_TARGETS, *REPORTED_LIMITS),
    relies_on=("lookups",),
)
