"""What judges of evaluations share: from the numbers of single batches to what was printed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, refuted, untested

Numbers = Sequence[Mapping[str, Any]]
Evaluation = Mapping[str, Any]

# A difference of reported and true loss that is worth a word, in nats.
LEAST = 0.005
# Digits that a printed number must have to count at all, and to count by itself.
FEWEST_DIGITS, TELLING_DIGITS = 3, 4
# Parts that the batches of one evaluation may fall into: those of several sets in turn.
MOST_SETS = 3
# What a printed number may miss by beyond its last digit: sums of 32-bit numbers.
ROUNDING = 2e-6
# Told with every fault of an evaluation.
UNHARMED = "The number is wrong; the training does not depend on it and may be fine."
KINDS = ("mean", "sum", "exponential")


@dataclass(frozen=True)
class Aggregates:
    """What a program may make of the numbers of some batches."""

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


def measured(evidence: Evidence) -> list[Evaluation]:
    """The evaluations in which some number was measured."""
    return [e for e in evidence.evaluations if e.get("metrics")]


def nothing_measured(evidence: Evidence) -> Judgement:
    """Why there is nothing to judge."""
    reasons = [e["untested"] for e in evidence.evaluations if e.get("untested")]
    if reasons:
        return untested(f"an evaluation could not be looked at: {reasons[0]}")
    return untested("no evaluation was recorded")


def sound(sentence: str, evidence: Evidence) -> Judgement:
    """Refuted, unless only a part of every evaluation was seen."""
    if not any(e.get("whole") for e in measured(evidence)):
        return untested(f"{sentence}, but no evaluation was seen to its end")
    return refuted(sentence)


def finite(number: Mapping[str, Any], *names: str) -> bool:
    """Whether these fields are numbers."""
    values = [number.get(name) for name in names]
    return all(isinstance(v, int | float) and math.isfinite(v) for v in values)


def sets_of(numbers: Numbers) -> Iterator[Aggregates]:
    """What may be made of all numbers, and of those of each set where there are several.

    >>> few, many = {"value": 3.0, "count": 1}, {"value": 1.0, "count": 9}
    >>> found = list(sets_of([n | {"texts": 1, "kind": "mean"} for n in (few, many)]))
    >>> found[0].by_batch, found[0].by_token, [a.part for a in found]
    (2.0, 1.2, [(0, 1), (0, 2), (1, 2)])
    """
    for parts in range(1, MOST_SETS + 1):
        size, left = divmod(len(numbers), parts)
        for i in range(parts) if size and not left else ():
            found = aggregates(numbers[i * size : (i + 1) * size], (i, parts))
            if found is not None:
                yield found


def aggregates(numbers: Numbers, part: tuple[int, int] = (0, 1)) -> Aggregates | None:
    """The means that a program may take of these numbers; None where they are none."""
    values = [n["value"] for n in numbers]
    tokens, texts = sum(n["count"] for n in numbers), sum(n["texts"] for n in numbers)
    if not numbers or not tokens or not texts or not all(map(math.isfinite, values)):
        return None
    if all(n["kind"] == "sum" for n in numbers):
        whole = sum(values)
        return Aggregates(part, numbers, whole / len(values), whole / texts, whole / tokens)
    return Aggregates(
        part,
        numbers,
        sum(values) / len(values),
        sum(n["value"] * n["texts"] for n in numbers) / texts,
        sum(n["value"] * n["count"] for n in numbers) / tokens,
    )


def printed_as(
    evaluation: Evaluation, number: float, digits: int = FEWEST_DIGITS
) -> list[Mapping[str, Any]]:
    """The printed numbers that this one would be printed as."""
    return [
        p
        for p in evaluation.get("printed", ())
        if p["digits"] >= digits
        and abs(p["value"] - number) <= 1.001 * p["half"] + ROUNDING * abs(number)
    ]


def exponential(number: float) -> float:
    """Without overflow."""
    return math.exp(min(number, 700.0))


def is_reported(evaluation: Evaluation, metric: Mapping[str, Any]) -> bool:
    """Whether the user's code reads a metric's numbers, or something made of them was printed."""
    if metric["read"]:
        return True
    numbers = [x for made in sets_of(metric["numbers"]) for x in made.all]
    return any(
        printed_as(evaluation, x, TELLING_DIGITS)
        or printed_as(evaluation, exponential(x), TELLING_DIGITS)
        for x in numbers
    )


def cross_entropies(
    evaluations: Iterable[Evaluation],
) -> Iterator[tuple[Evaluation, Mapping[str, Any], Numbers]]:
    """Reported metrics that are cross-entropies of some tokens, with their numbers."""
    for evaluation in evaluations:
        for metric in evaluation["metrics"]:
            known = [n for n in metric["numbers"] if n["kind"] in KINDS and finite(n, "mean")]
            if known and len(known) == len(metric["numbers"]) and is_reported(evaluation, metric):
                yield evaluation, metric, known


Key = tuple[Any, ...]
Found = TypeVar("Found")


def repeated(found: Sequence[tuple[Key, int, bool, Found]]) -> list[Found]:
    """What was found often enough not to be chance, in the order of evaluations.

    Each is told with what it was found by, the step of the evaluation, and whether it is telling by
    itself. The rest has to be found by the same in two evaluations.
    """
    steps: dict[Key, set[int]] = {}
    for key, step, _, _ in found:
        steps.setdefault(key, set()).add(step)
    kept: dict[int, Found] = {}
    for key, step, telling, one in found:
        if telling or len(steps[key]) > 1:
            kept.setdefault(step, one)
    return list(kept.values())


def over_tokens(numbers: Numbers, name: str) -> float:
    """The mean of a field, every counted token weighing the same."""
    return float(sum(n[name] * n["count"] for n in numbers) / sum(n["count"] for n in numbers))
