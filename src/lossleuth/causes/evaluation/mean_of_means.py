"""The reported loss is the mean of means of unequal batches.

What it means
    Each batch of the evaluation gives a mean over its tokens, and these means are averaged as if
    all batches had the same number of tokens. They do not: the last batch is smaller, texts have
    different lengths, or labels are masked.

Why training fails
    It does not: the weights do not depend on this number. But the number changes with the batch
    size, so two runs cannot be compared by it.

How it is judged
    On recorded evaluations, the weight of every token in the number that the program reads is taken
    from the derivative of that number with respect to the scores. Proven if a number that is read
    or printed is the mean of the batches' means (to the last printed digit), and not the mean over
    all tokens.

How to fix
    Add up losses and tokens over all batches, and divide once.

When this verdict is wrong
    When every batch, or every text, is meant to count the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lossleuth.causes.reasoning import where_of
from lossleuth.causes.reported_numbers import (
    MIN_DIFFERENCE_NATS,
    MIN_DIGITS,
    MIN_PROVING_DIGITS,
    REPORTED_LIMITS,
    UNHARMED,
    Match,
    Numbers,
    Reported,
    cross_entropies,
    exponential,
    is_finite,
    measured,
    nothing_measured,
    printed_as,
    repeated,
    sets_of,
    sound,
)
from lossleuth.findings.evaluation import Evaluation
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence, SeenEvaluation
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, untested

MAX_METRICS = Limit(
    4, "most metrics of an evaluation; of more, one equals a printed number by chance"
)
MAX_FLOORS = Limit(10, "largest distance from the mean of means, in multiples of the rounding")
MAX_DISTANCE = Limit(1e-6, "largest distance from the mean of means beyond that, in nats")
REMEDY = "Add up the losses of all tokens over all batches and divide by their number once."


@dataclass(frozen=True)
class _Compared:
    """A reported number beside the mean over all tokens."""

    reported: float
    right: float
    place: str | None
    counts: tuple[int, ...]
    floor: float

    @property
    def difference(self) -> float:
        return abs(self.reported - self.right)


def judge(evidence: Evidence) -> Judgement:
    """Compare what was reported with the mean over all tokens."""
    evaluations = measured(evidence)
    if not evaluations:
        return nothing_measured(evidence)
    found: list[Match[_Compared]] = []
    unmatched, equal = 0, 0
    for reported in cross_entropies(evaluations):
        step, evaluation = reported.seen.step, reported.seen.evaluation
        for whole in _read_whole(reported):
            found.append(Match((reported.metric.place,), step, True, whole))
        single = [n for n in reported.numbers if len(n.batches) == 1 and n.kind == "mean"]
        if len(single) < 2 or not evaluation.whole:
            continue
        if len({number.count for number in single}) == 1:
            equal += 1
        elif not _is_printed_right(reported.seen, single):
            few = len(evaluation.metrics) <= MAX_METRICS
            printed = list(_printed(reported, single)) if few else []
            found += printed
            unmatched += not printed
    wrong = repeated(found)
    plain = [one for one in wrong if one.difference >= MIN_DIFFERENCE_NATS]
    if plain:
        return _proven(max(plain, key=lambda one: one.difference), len(plain))
    if wrong:
        largest = max(one.difference for one in wrong)
        return Judgement(
            Status.BENIGN,
            f"Means of unequal batches are averaged, which makes a difference of {largest:.2g} "
            f"nats; from {MIN_DIFFERENCE_NATS:g} on it would matter.",
        )
    if unmatched or found:
        return untested("no printed number is surely a mean over the batches, right or wrong")
    if equal:
        because = f"the batches of {equal} reported numbers have equally many tokens"
    else:
        because = f"no mean of unequal means was reported in {len(evaluations)} evaluations"
    return sound(because, evidence)


def _read_whole(reported: Reported) -> Iterator[_Compared]:
    """Numbers that the program has made of several batches before it reads them."""
    for n in reported.numbers:
        if not reported.metric.read or len(n.batches) < 2:
            continue
        if not (is_finite(n.mean) and is_finite(n.evenly)):
            continue
        if not (is_finite(n.by_batch) and is_finite(n.by_text)):
            continue
        near = MAX_FLOORS * n.floor + MAX_DISTANCE
        distance = min(abs(n.mean - mean) for mean in (n.by_batch, n.by_text))
        # Other weights than these are somebody's own choice.
        if distance <= near < abs(n.mean - n.evenly):
            counts = (n.count,) * len(n.batches)
            yield _Compared(n.mean, n.evenly, reported.metric.place, counts, n.floor)


def _is_printed_right(seen: SeenEvaluation, numbers: Numbers) -> bool:
    """Whether the mean over all tokens, or its exponential, was printed."""
    return any(
        printed_as(seen, means.by_token) or printed_as(seen, exponential(means.by_token))
        for means in sets_of(numbers)
        if means.part == (0, 1) or len(means.numbers) > 1
    )


def _printed(reported: Reported, numbers: Numbers) -> Iterator[Match[_Compared]]:
    """Wrong means that were printed."""
    seen, metric = reported.seen, reported.metric
    which = seen.evaluation.metrics.index(metric)
    for means in sets_of(numbers):
        counts = tuple(number.count for number in means.numbers)
        if len(set(counts)) < 2:
            continue
        whole = len(counts) == seen.evaluation.batches
        for name, wrong in (("batch", means.by_batch), ("text", means.by_text)):
            for is_exponential in (False, True):
                value = exponential(wrong) if is_exponential else wrong
                formula = (which, means.part, name, is_exponential)
                for printed in printed_as(seen, value):
                    half = printed.half / (value if is_exponential else 1.0)
                    sure = whole and printed.digits >= MIN_PROVING_DIGITS
                    one = _Compared(wrong, means.by_token, metric.place, counts, half)
                    yield Match(formula, seen.step, sure, one)


def _proven(one: _Compared, times: int) -> Judgement:
    fewest, most = min(one.counts), max(one.counts)
    sizes = f" of {fewest} to {most} tokens" if fewest < most else ""
    because = (
        f"The loss reported for {len(one.counts)} batches{sizes} is {one.reported:.4f}, the mean "
        f"of their means; the mean over all tokens is {one.right:.4f} (in {times} evaluations). "
        f"{UNHARMED}"
    )
    return Judgement(
        Status.PROVEN,
        because,
        where_of(one.place),
        Wrongness("reported loss", one.reported, one.right, one.floor),
        remedy=REMEDY,
    )


CAUSE = Cause(
    "mean_of_means",
    Stage.EVALUATION,
    "the reported loss is the mean of means of unequal batches",
    judge,
    uses=(Evaluation,),
    limits=(
        MIN_DIFFERENCE_NATS,
        MAX_METRICS,
        MAX_FLOORS,
        MAX_DISTANCE,
        MIN_DIGITS,
        MIN_PROVING_DIGITS,
        *REPORTED_LIMITS,
    ),
)
