"""The perplexity is the exponential of something else than cross-entropy.

What it means
    Perplexity is the exponential of the mean cross-entropy per token. What is printed is the
    exponential of a sum of loss terms, of a smoothed loss, or of a loss that was capped.

Why training fails
    It does not: the weights do not depend on this number. But it says nothing about the model, and
    can be beyond all bounds or stand still while the model learns.

How it is judged
    On recorded evaluations, every number that the program reads is taken apart by its derivative
    for the scores: a plain cross-entropy, or something else. Proven if a number that is printed is,
    to its last digit, the exponential of such another number (of its mean over the batches, or of
    two such numbers with weights), and not that of the cross-entropy of the same batches.

How to fix
    Take the exponential of the unsmoothed cross-entropy alone, summed over all tokens and divided
    by their number.

When this verdict is wrong
    When what is printed is not called a perplexity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lossleuth.causes.reasoning import where_of
from lossleuth.causes.reported_numbers import (
    KINDS,
    TELLING_DIGITS,
    UNHARMED,
    Evaluation,
    Key,
    Numbers,
    aggregates,
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

# Share of the positions whose next token a loss has to ask for, whatever else it asks for.
COMPARED = 0.9
# Nats between what a perplexity is of and the true loss.
FEWEST_NATS = 0.01
# Weights of two terms that a sum is recognised with: tenths, up to this many.
MOST_TENTHS = 40
# Losses that a perplexity may be capped at: whole numbers.
CAPS = range(3, 101)


@dataclass(frozen=True)
class _Perplexity:
    """A reported perplexity, what it is the exponential of, and the true loss."""

    reported: float
    exponent: float
    true: float
    what: str
    place: str | None


def judge(evidence: Evidence) -> Judgement:
    """Find out what printed perplexities are of."""
    evaluations = [e for e in measured(evidence) if finite(e, "true")]
    if not evaluations:
        return nothing_measured(evidence)
    found: list[tuple[Key, int, bool, _Perplexity]] = []
    right, unknown = 0, 0
    for evaluation in evaluations:
        plain = _plain(evaluation)
        here = [
            (key, int(evaluation["step"]), telling, one)
            for key, telling, one in _wrong(evaluation, plain)
            if abs(one.exponent - one.true) >= FEWEST_NATS
        ]
        found += here
        right += any(printed_as(evaluation, exponential(x)) for x in plain)
        unknown += not here and any(_pairs(evaluation, plain))
    wrong = repeated(found)
    if wrong:
        return _proven(wrong[-1], len(wrong))
    if right:
        told = f"perplexities printed of {right} evaluations are those of plain cross-entropy"
        return sound(told, evidence)
    if unknown or found:
        return untested("what a printed exponential is of was not found among the numbers read")
    if any(evaluation.get("printed") for evaluation in evaluations):
        return untested(
            f"of the numbers printed in {len(evaluations)} evaluations none is the exponential of "
            "a loss that was read: whether one is a perplexity is not known"
        )
    return sound(f"no number was printed in {len(evaluations)} evaluations", evidence)


def _plain(evaluation: Evaluation) -> set[float]:
    """Means of cross-entropy, whatever weights the program gives to its batches."""
    found = {float(evaluation["true"])}
    for metric in evaluation["metrics"]:
        numbers = [n for n in metric["numbers"] if n["kind"] in KINDS and finite(n, "mean")]
        means = [{**n, "value": n["mean"], "kind": "mean"} for n in numbers]
        found |= {x for made in (*sets_of(numbers), *sets_of(means)) for x in made.all}
    return found


def _wrong(evaluation: Evaluation, plain: set[float]) -> Iterator[tuple[Key, bool, _Perplexity]]:
    """Exponentials of something else: how each was found, and whether that tells by itself."""
    true = float(evaluation["true"])
    also = [p for x in plain for p in printed_as(evaluation, exponential(x))]
    for which, metric in enumerate(evaluation["metrics"]):
        place, numbers = metric["place"], metric["numbers"]
        if any(n["kind"] in KINDS for n in numbers) or not _compares(numbers):
            continue
        for number in numbers:
            value = number["value"]
            if metric["read"] and number["is_exponential"] and 0 < value < math.inf:
                one = _Perplexity(value, math.log(value), true, "no cross-entropy", place)
                yield (place,), True, one
        what = f"what is read at {place}, no plain cross-entropy"
        for made in sets_of(numbers):
            for name, exponent in enumerate(made.all):
                for told in printed_as(evaluation, exponential(exponent)):
                    if told not in also:
                        beside = printed_as(evaluation, exponent, TELLING_DIGITS)
                        lines = {p["line"] for p in beside}
                        telling = told["digits"] >= TELLING_DIGITS and told["line"] in lines
                        one = _Perplexity(told["value"], exponent, true, what, place)
                        yield (which, made.part, name), telling, one
    for taken, told in _pairs(evaluation, plain):
        sum_of = _sum_of(evaluation, taken)
        if sum_of is not None:
            what, place = sum_of
            telling = min(taken["digits"], told["digits"]) >= TELLING_DIGITS
            yield (
                ("sum",),
                telling,
                _Perplexity(told["value"], taken["value"], true, what, place),
            )
    for cap in CAPS:
        if true > cap + FEWEST_NATS:
            for told in printed_as(evaluation, math.exp(cap)):
                if told not in also:
                    what, place = f"a loss capped at {cap}", _place(evaluation)
                    one = _Perplexity(told["value"], float(cap), true, what, place)
                    yield (cap,), told["digits"] > TELLING_DIGITS, one


def _pairs(
    evaluation: Evaluation, plain: set[float]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """A printed number and its exponential on one line, where it is no plain cross-entropy."""
    printed = [p for p in evaluation.get("printed", ()) if p["digits"] >= 3]
    ordinary = [p for x in plain for p in printed_as(evaluation, x)]
    ordinary += [p for x in plain for p in printed_as(evaluation, exponential(x))]
    for one in printed:
        for other in printed:
            if one["line"] != other["line"] or one in ordinary or other in ordinary:
                continue
            if not 0.5 < one["value"] < 700 or other["value"] <= 0:
                continue
            near = one["half"] + other["half"] / other["value"]
            if abs(math.log(other["value"]) - one["value"]) <= near < 0.01:
                yield one, other


def _sum_of(evaluation: Evaluation, wanted: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Two numbers of the evaluation whose weighted sum this is, with weights in tenths."""
    parts = [
        (made.by_batch, metric["place"], any(n["kind"] not in KINDS for n in metric["numbers"]))
        for metric in evaluation["metrics"]
        if metric["read"] and (made := aggregates(metric["numbers"])) is not None
    ]
    if not any(_compares(metric["numbers"]) for metric in evaluation["metrics"]):
        return None
    for i, (first, place, other) in enumerate(parts):
        for second, where, also_other in parts[i + 1 :]:
            if not (other or also_other) or not first or not second:
                continue
            for tenths in range(1, MOST_TENTHS + 1):
                left = (wanted["value"] - tenths / 10 * first) / second * 10
                near = (wanted["half"] + 1e-5 * wanted["value"]) / abs(second) * 10
                if 0 < round(left) <= MOST_TENTHS and abs(left - round(left)) <= near < 0.1:
                    what = (
                        f"{tenths / 10:g} times {first:.4f} plus {round(left) / 10:g} times "
                        f"{second:.4f}, read at {place}"
                    )
                    return what, where or place
    return None


def _compares(numbers: Numbers) -> bool:
    """Whether numbers fall with the chances of next tokens: an entropy, say, does not."""
    return all(n["next_explained"] >= COMPARED for n in numbers)


def _place(evaluation: Evaluation) -> str | None:
    return next((m["place"] for m in evaluation["metrics"] if m["read"]), None)


def _proven(seen: _Perplexity, times: int) -> Judgement:
    right = exponential(seen.true)
    because = (
        f"The perplexity of {seen.reported:.6g} is the exponential of {seen.exponent:.4f} "
        f"({seen.what}); the cross-entropy of the same tokens is {seen.true:.4f}, which makes "
        f"{right:.6g} (in {times} evaluations). {UNHARMED}"
    )
    return Judgement(
        Status.PROVEN,
        because,
        where_of(seen.place),
        Wrongness("logarithm of the reported perplexity", seen.exponent, seen.true, 1e-4),
        remedy="Take the exponential of the unsmoothed cross-entropy alone.",
    )


CAUSE = Cause(
    "perplexity_of_total",
    Stage.EVALUATION,
    "the perplexity is not that of the cross-entropy",
    judge,
    ("evaluations",),
)
