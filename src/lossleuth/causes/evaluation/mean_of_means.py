"""The evaluation averages means of batches that are not of the same size.

What it means
    Each batch of the evaluation gives a mean over its tokens, and these means are averaged as if
    the batches had equally many tokens. They have not: the last batch is smaller, texts have
    different lengths, or labels are masked.

Why training fails
    It does not: the weights do not depend on this number. But it changes with the size of the
    batches, so that two runs cannot be compared by it.

How it is judged
    On recorded evaluations, the weight of every token in what the program reads is taken from the
    derivative of that number for the scores. Proven if a number that is read or printed is the mean
    of the batches' means (to the last digit printed), and is not the mean over all tokens.

How to fix
    Add up losses and tokens over all batches, and divide once.

When this verdict is wrong
    When every batch, or every text, is meant to count the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lossleuth.causes.reasoning import where_of
from lossleuth.causes.reported_numbers import (
    LEAST,
    TELLING_DIGITS,
    UNHARMED,
    Evaluation,
    Key,
    Numbers,
    cross_entropies,
    exponential,
    finite,
    measured,
    nothing_measured,
    printed_as,
    repeated,
    sets_of,
    sound,
)
from lossleuth.types.cause import Cause
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, untested

# Of more numbers in one evaluation, one will be like a printed one by chance.
MOST_METRICS = 4
REMEDY = "Add up the losses of all tokens over all batches and divide by their number once."


@dataclass(frozen=True)
class _Seen:
    """A reported number beside the mean over all tokens."""

    reported: float
    right: float
    place: str | None
    counts: tuple[int, ...]
    floor: float


def judge(evidence: Evidence) -> Judgement:
    """Compare what was reported with the mean over all tokens."""
    evaluations = measured(evidence)
    if not evaluations:
        return nothing_measured(evidence)
    found: list[tuple[Key, int, bool, _Seen]] = []
    unmatched, equal = 0, 0
    for evaluation, metric, numbers in cross_entropies(evaluations):
        step, which = int(evaluation["step"]), evaluation["metrics"].index(metric)
        for seen in _read_whole(metric, numbers):
            found.append(((metric["place"],), step, True, seen))
        single = [n for n in numbers if len(n["batches"]) == 1 and n["kind"] == "mean"]
        if len(single) < 2 or not evaluation.get("whole"):
            continue
        if len({n["count"] for n in single}) == 1:
            equal += 1
        elif not _is_printed_right(evaluation, single):
            few = len(evaluation["metrics"]) <= MOST_METRICS
            printed = list(_printed(evaluation, metric, single)) if few else []
            found += [((which, *key), step, sure, seen) for key, sure, seen in printed]
            unmatched += not printed
    wrong = repeated(found)
    plain = [seen for seen in wrong if abs(seen.reported - seen.right) >= LEAST]
    if plain:
        return _proven(max(plain, key=lambda seen: abs(seen.reported - seen.right)), len(plain))
    if wrong:
        least = max(abs(seen.reported - seen.right) for seen in wrong)
        told = f"Means of unequal batches are averaged, which makes {least:.2g} nats of difference"
        return Judgement(Status.BENIGN, f"{told}; {LEAST:g} would be worth a word.")
    if unmatched or found:
        return untested("no printed number is surely a mean of the batches, right or wrong")
    if equal:
        return sound(f"the batches of {equal} reported numbers have equally many tokens", evidence)
    told = f"no mean of unequal means was reported in {len(evaluations)} evaluations"
    return sound(told, evidence)


def _read_whole(metric: Mapping[str, Any], numbers: Numbers) -> Iterator[_Seen]:
    """Numbers that the program has made of several batches before it reads them."""
    for number in numbers:
        whole = metric["read"] and len(number["batches"]) > 1
        if not whole or not finite(number, "mean", "evenly", "by_batch", "by_text"):
            continue
        near = 10 * number["floor"] + 1e-6
        reported, right = float(number["mean"]), float(number["evenly"])
        taken = min(abs(reported - number[name]) for name in ("by_batch", "by_text"))
        # Other weights than these are somebody's own choice.
        if taken <= near < abs(reported - right):
            counts = (number["count"],) * len(number["batches"])
            yield _Seen(reported, right, metric["place"], counts, float(number["floor"]))


def _is_printed_right(evaluation: Evaluation, numbers: Numbers) -> bool:
    """Whether the mean over all tokens, or its exponential, was printed."""
    return any(
        printed_as(evaluation, made.by_token) or printed_as(evaluation, exponential(made.by_token))
        for made in sets_of(numbers)
        if made.part == (0, 1) or len(made.numbers) > 1
    )


def _printed(
    evaluation: Evaluation, metric: Mapping[str, Any], numbers: Numbers
) -> Iterator[tuple[Key, bool, _Seen]]:
    """Wrong means that were printed: how each was found, and whether that is telling by itself."""
    for made in sets_of(numbers):
        counts = tuple(int(n["count"]) for n in made.numbers)
        if len(set(counts)) < 2:
            continue
        for name, wrong in (("batch", made.by_batch), ("text", made.by_text)):
            for is_exponential in (False, True):
                value = exponential(wrong) if is_exponential else wrong
                for told in printed_as(evaluation, value):
                    half = told["half"] / (value if is_exponential else 1.0)
                    whole = len(counts) == evaluation["batches"]
                    sure = whole and told["digits"] > TELLING_DIGITS
                    seen = _Seen(wrong, made.by_token, metric["place"], counts, half)
                    yield (made.part, name, is_exponential), sure, seen


def _proven(seen: _Seen, times: int) -> Judgement:
    fewest, most = min(seen.counts), max(seen.counts)
    sizes = f" of {fewest} to {most} tokens" if fewest < most else ""
    because = (
        f"The loss reported of {len(seen.counts)} batches{sizes} is {seen.reported:.4f}, the mean "
        f"of their means; the mean over all tokens is {seen.right:.4f} (in {times} evaluations). "
        f"{UNHARMED}"
    )
    return Judgement(
        Status.PROVEN,
        because,
        where_of(seen.place),
        Wrongness("reported loss", seen.reported, seen.right, seen.floor),
        remedy=REMEDY,
    )


CAUSE = Cause(
    "mean_of_means",
    Stage.EVALUATION,
    "the reported loss is the mean of means of unequal batches",
    judge,
    ("evaluations",),
)
