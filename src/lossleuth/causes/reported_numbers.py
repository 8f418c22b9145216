"""What judges of evaluations share: from the numbers of single batches to what was printed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeGuard, TypeVar

from lossleuth.findings.evaluation import Evaluation, Metric, MetricValue
from lossleuth.types.cause import Limit
from lossleuth.types.evidence import Evidence, SeenEvaluation
from lossleuth.types.judgement import Judgement, refuted, untested
from lossleuth.types.observed import PrintedNumber

Numbers = Sequence[MetricValue]

_DECISION = "docs/decisions/0017-evaluations.md"
MIN_DIFFERENCE_NATS = Limit(
    0.02,
    "least difference of reported and true loss, in nats, that is worth reporting",
    "picked by hand: 2 % of a perplexity; a well-known trainer's own evaluation is off by 0.006",
)
MIN_DIGITS = Limit(3, "fewest digits of a printed number that is compared at all")
MIN_MATCHING_DIGITS = Limit(
    4, "fewest digits of a printed number that shows by itself that a metric is reported", _DECISION
)
MIN_PROVING_DIGITS = Limit(5, "fewest digits of a printed number that is proof by itself")
MAX_SETS = Limit(
    3, "most sets, such as training and validation, that the batches of an evaluation may be of"
)
MAX_HALF_DIGITS = Limit(
    1.001, "largest distance from a printed number, in halves of a unit of its last digit"
)
MAX_ROUNDING = Limit(
    2e-6, "largest relative distance beyond that, which rounding of sums in float32 explains"
)
MAX_EXPONENT = Limit(
    700, "largest exponent that an exponential is taken of", "e to 709.8 is the largest float64"
)
# What decides whether a metric is reported.
REPORTED_LIMITS = (
    MIN_MATCHING_DIGITS,
    MAX_SETS,
    MAX_HALF_DIGITS,
    MAX_ROUNDING,
    MAX_EXPONENT,
)
# Said with every fault of an evaluation.
UNHARMED = "The number is wrong; the training does not depend on it and may be fine."
# Kinds of numbers that are made of cross-entropies alone.
CROSS_ENTROPIES = ("mean", "sum", "exponential")


@dataclass(frozen=True)
class Means:
    """The means that a program may take of the numbers of some batches."""

    # Which of how many sets these batches are.
    part: tuple[int, int]
    numbers: Numbers
    by_batch: float
    by_text: float
    by_token: float

    @property
    def all(self) -> tuple[float, ...]:
        """Every one of them."""
        return self.by_batch, self.by_text, self.by_token


@dataclass(frozen=True)
class Reported:
    """A metric that is reported, and the evaluation that it is of."""

    seen: SeenEvaluation
    metric: Metric

    @property
    def numbers(self) -> Numbers:
        """Its numbers, batch by batch."""
        return self.metric.numbers


def measured(evidence: Evidence) -> list[SeenEvaluation]:
    """The evaluations in which some number was measured."""
    return [seen for seen in evidence.evaluations if seen.evaluation.metrics]


def nothing_measured(evidence: Evidence) -> Judgement:
    """Why there is nothing to judge."""
    found: list[Evaluation] = [seen.evaluation for seen in evidence.evaluations]
    reasons = [evaluation.untested for evaluation in found if evaluation.untested]
    if reasons:
        return untested(f"an evaluation could not be measured: {reasons[0]}")
    return untested("no evaluation was recorded")


def sound(sentence: str, evidence: Evidence) -> Judgement:
    """Refuted, unless only a part of every evaluation was seen."""
    if not any(seen.evaluation.whole for seen in measured(evidence)):
        return untested(f"{sentence}, but no evaluation was seen to its end")
    return refuted(sentence)


def is_finite(value: float | None) -> TypeGuard[float]:
    """Whether this was measured and is a number."""
    return value is not None and math.isfinite(value)


def sets_of(numbers: Numbers) -> Iterator[Means]:
    """The means of all numbers, and of those of each set if they are of several.

    >>> few = MetricValue(3.0, batches=(0,), texts=1, count=1, kind="mean")
    >>> many = MetricValue(1.0, batches=(1,), texts=1, count=9, kind="mean")
    >>> found = list(sets_of([few, many]))
    >>> found[0].by_batch, found[0].by_token, [means.part for means in found]
    (2.0, 1.2, [(0, 1), (0, 2), (1, 2)])
    """
    for parts in range(1, int(MAX_SETS) + 1):
        size, left = divmod(len(numbers), parts)
        for i in range(parts) if size and not left else ():
            found = means_of(numbers[i * size : (i + 1) * size], (i, parts))
            if found is not None:
                yield found


def means_of(numbers: Numbers, part: tuple[int, int] = (0, 1)) -> Means | None:
    """The means that a program may take of these numbers; None where it can take none."""
    values = [number.value for number in numbers]
    tokens, texts = sum(n.count for n in numbers), sum(n.texts for n in numbers)
    if not numbers or not tokens or not texts or not all(map(math.isfinite, values)):
        return None
    if all(number.kind == "sum" for number in numbers):
        whole = sum(values)
        return Means(part, numbers, whole / len(values), whole / texts, whole / tokens)
    return Means(
        part,
        numbers,
        sum(values) / len(values),
        sum(n.value * n.texts for n in numbers) / texts,
        sum(n.value * n.count for n in numbers) / tokens,
    )


def printed_as(
    seen: SeenEvaluation, number: float, digits: float = MIN_DIGITS
) -> list[PrintedNumber]:
    """The printed numbers that this one may have been printed as."""
    return [
        printed
        for printed in seen.printed
        if printed.digits >= digits
        and abs(printed.value - number)
        <= MAX_HALF_DIGITS * printed.half + MAX_ROUNDING * abs(number)
    ]


def exponential(number: float) -> float:
    """Without overflow."""
    return math.exp(min(number, MAX_EXPONENT))


def is_reported(seen: SeenEvaluation, metric: Metric) -> bool:
    """Whether the user's code reads a metric's numbers, or prints something made of them."""
    if metric.read:
        return True
    return any(
        printed_as(seen, x, MIN_MATCHING_DIGITS)
        or printed_as(seen, exponential(x), MIN_MATCHING_DIGITS)
        for means in sets_of(metric.numbers)
        for x in means.all
    )


def is_cross_entropy(number: MetricValue) -> bool:
    """Whether a number is made of cross-entropies of tokens alone."""
    return number.kind in CROSS_ENTROPIES and is_finite(number.mean)


def cross_entropies(evaluations: Iterable[SeenEvaluation]) -> Iterator[Reported]:
    """Reported metrics whose numbers are all cross-entropies of tokens."""
    for seen in evaluations:
        for metric in seen.evaluation.metrics:
            plain = bool(metric.numbers) and all(map(is_cross_entropy, metric.numbers))
            if plain and is_reported(seen, metric):
                yield Reported(seen, metric)


Found = TypeVar("Found")


@dataclass(frozen=True)
class Match(Generic[Found]):
    """What was found in the evaluation before a step, and by which formula."""

    formula: tuple[Hashable, ...]
    step: int
    # Whether once is enough, because it cannot well be chance.
    is_sure: bool
    found: Found


def repeated(matches: Sequence[Match[Found]]) -> list[Found]:
    """The first that is surely not chance in each evaluation, in the order of evaluations.

    What is not sure by itself has to be found by the same formula in two evaluations.
    """
    steps: dict[tuple[Hashable, ...], set[int]] = {}
    for match in matches:
        steps.setdefault(match.formula, set()).add(match.step)
    kept: dict[int, Found] = {}
    for match in matches:
        if match.is_sure or len(steps[match.formula]) > 1:
            kept.setdefault(match.step, match.found)
    return list(kept.values())


def over_tokens(values: Iterable[tuple[float, int]]) -> float:
    """The mean of values, each with the number of tokens that it counts for.

    >>> over_tokens([(1.0, 9), (3.0, 1)])
    1.2
    """
    pairs = list(values)
    return sum(value * count for value, count in pairs) / sum(count for _, count in pairs)
