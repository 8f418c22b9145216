"""The perplexity is the exponential of something else than the cross-entropy.

What it means
    Perplexity is the exponential of the mean cross-entropy per token. What is printed is the
    exponential of a sum of loss terms, of a smoothed loss, or of a loss that was capped.

Why training fails
    It does not: the weights do not depend on this number. But the number says nothing about the
    model, and can be huge or stand still while the model learns.

How it is judged
    On recorded evaluations, the derivative of every number that the program reads, with respect to
    the scores, says whether it is a plain cross-entropy or something else. Proven if a printed
    number is, to its last digit, the exponential of something else (of its mean over the batches,
    or of two such numbers with weights), and not that of the cross-entropy of the same batches.

How to fix
    Take the exponential of the unsmoothed cross-entropy alone, summed over all tokens and divided
    by their number.

When this verdict is wrong
    When what is printed is not meant to be a perplexity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lossleuth.causes.reasoning import where_of
from lossleuth.causes.reported_numbers import (
    CROSS_ENTROPIES,
    MAX_EXPONENT,
    MIN_DIGITS,
    MIN_MATCHING_DIGITS,
    MIN_PROVING_DIGITS,
    REPORTED_LIMITS,
    UNHARMED,
    Match,
    Numbers,
    exponential,
    is_finite,
    means_of,
    measured,
    nothing_measured,
    printed_as,
    repeated,
    sets_of,
    sound,
)
from lossleuth.findings.evaluation import Evaluation, Metric
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.evidence import Evidence, SeenEvaluation
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, untested
from lossleuth.types.observed import PrintedNumber

_DECISION = "docs/decisions/0017-evaluations.md"
MIN_NEXT_EXPLAINED = Limit(0.9, "least share of the positions whose next token a loss asks for")
MIN_DIFFERENCE = Limit(
    0.01, "least difference of the true loss and the logarithm of a perplexity, in nats"
)
MAX_TENTHS = Limit(40, "largest weight, in tenths, of a term in a sum of two", _DECISION)
MAX_SUM_ERROR = Limit(
    1e-5, "largest relative distance of a printed number from such a sum, beyond its last digit"
)
MAX_TENTH_ERROR = Limit(0.1, "largest uncertainty of a weight, in tenths, that is still clear")
MIN_CAP = Limit(3, "lowest whole number that a loss may be capped at before the exponential")
MAX_CAP = Limit(100, "highest whole number that a loss may be capped at before the exponential")
MIN_PRINTED_LOSS = Limit(0.5, "lowest printed number that is looked at as a loss, in nats")
MAX_PAIR_ERROR = Limit(
    0.01, "largest rounding, in nats, at which a number and its exponential are still recognised"
)


@dataclass(frozen=True)
class _Perplexity:
    """A reported perplexity, what it is the exponential of, and the true loss."""

    reported: float
    exponent: float
    true: float
    what: str
    place: str | None


@dataclass(frozen=True)
class _Known:
    """An evaluation whose true loss is known, and the means of cross-entropy in it."""

    seen: SeenEvaluation
    true: float
    plain: frozenset[float]

    @property
    def metrics(self) -> list[Metric]:
        return self.seen.evaluation.metrics

    def printed_right(self) -> list[PrintedNumber]:
        """Printed exponentials of plain cross-entropies."""
        return [p for x in self.plain for p in printed_as(self.seen, exponential(x))]


def judge(evidence: Evidence) -> Judgement:
    """Find out what printed perplexities are the exponential of."""
    evaluations = [
        _Known(seen, seen.evaluation.true, _plain(seen, seen.evaluation.true))
        for seen in measured(evidence)
        if is_finite(seen.evaluation.true)
    ]
    if not evaluations:
        return nothing_measured(evidence)
    found: list[Match[_Perplexity]] = []
    right, unknown = 0, 0
    for known in evaluations:
        here = [
            match
            for match in _wrong(known)
            if abs(match.found.exponent - match.found.true) >= MIN_DIFFERENCE
        ]
        found += here
        right += bool(known.printed_right())
        unknown += not here and any(True for _ in _pairs(known))
    wrong = repeated(found)
    if wrong:
        return _proven(wrong[-1], len(wrong))
    if right:
        return sound(
            f"perplexities printed in {right} evaluations are those of plain cross-entropy",
            evidence,
        )
    if unknown or found:
        return untested("what a printed exponential is of was not found among the numbers read")
    if any(known.seen.printed for known in evaluations):
        return untested(
            f"none of the numbers printed in {len(evaluations)} evaluations is the exponential of "
            "a loss that was read: whether one is a perplexity is not known"
        )
    return sound(f"no number was printed in {len(evaluations)} evaluations", evidence)


def _plain(seen: SeenEvaluation, true: float) -> frozenset[float]:
    """Means of cross-entropy, whatever weights the program gives to its batches."""
    found = {true}
    for metric in seen.evaluation.metrics:
        numbers = [
            (n, replace(n, value=n.mean, kind="mean"))
            for n in metric.numbers
            if n.kind in CROSS_ENTROPIES and is_finite(n.mean)
        ]
        for given in ([n for n, _ in numbers], [mean for _, mean in numbers]):
            found |= {x for means in sets_of(given) for x in means.all}
    return frozenset(found)


def _wrong(known: _Known) -> Iterator[Match[_Perplexity]]:
    """Exponentials of something else."""
    right = known.printed_right()
    yield from _of_other_losses(known, right)
    yield from _of_sums(known)
    yield from _of_caps(known, right)


def _of_other_losses(known: _Known, right: list[PrintedNumber]) -> Iterator[Match[_Perplexity]]:
    """Of a number that asks for next tokens, but is no plain cross-entropy."""
    seen, true = known.seen, known.true
    for which, metric in enumerate(known.metrics):
        place, numbers = metric.place, metric.numbers
        if any(n.kind in CROSS_ENTROPIES for n in numbers) or not _compares(numbers):
            continue
        for number in numbers:
            value = number.value
            if metric.read and number.is_exponential and 0 < value < math.inf:
                one = _Perplexity(value, math.log(value), true, "no cross-entropy", place)
                yield Match((place,), seen.step, True, one)
        what = f"what is read at {place}, no plain cross-entropy"
        for means in sets_of(numbers):
            for name, exponent in enumerate(means.all):
                beside = {p.line for p in printed_as(seen, exponent, MIN_MATCHING_DIGITS)}
                for printed in printed_as(seen, exponential(exponent)):
                    if printed not in right:
                        clear = printed.digits >= MIN_MATCHING_DIGITS
                        sure = clear and printed.line in beside
                        one = _Perplexity(printed.value, exponent, true, what, place)
                        yield Match((which, means.part, name), seen.step, sure, one)


def _of_sums(known: _Known) -> Iterator[Match[_Perplexity]]:
    """Of a sum of two terms that is printed beside it."""
    for total, perplexity in _pairs(known):
        sum_of = _sum_of(known, total)
        if sum_of is not None:
            what, place = sum_of
            sure = min(total.digits, perplexity.digits) >= MIN_MATCHING_DIGITS
            one = _Perplexity(perplexity.value, total.value, known.true, what, place)
            yield Match(("sum",), known.seen.step, sure, one)


def _of_caps(known: _Known, right: list[PrintedNumber]) -> Iterator[Match[_Perplexity]]:
    """Of a whole number below the true loss."""
    place = next((metric.place for metric in known.metrics if metric.read), None)
    for cap in range(int(MIN_CAP), int(MAX_CAP) + 1):
        if known.true > cap + MIN_DIFFERENCE:
            for printed in printed_as(known.seen, math.exp(cap)):
                if printed not in right:
                    what = f"a loss capped at {cap}"
                    one = _Perplexity(printed.value, float(cap), known.true, what, place)
                    sure = printed.digits >= MIN_PROVING_DIGITS
                    yield Match((cap,), known.seen.step, sure, one)


def _pairs(known: _Known) -> Iterator[tuple[PrintedNumber, PrintedNumber]]:
    """A printed number and its exponential on one line, where it is no plain cross-entropy."""
    printed = [p for p in known.seen.printed if p.digits >= MIN_DIGITS]
    ordinary = [p for x in known.plain for p in printed_as(known.seen, x)]
    ordinary += known.printed_right()
    for one in printed:
        for other in printed:
            if one.line != other.line or one in ordinary or other in ordinary:
                continue
            if not MIN_PRINTED_LOSS < one.value < MAX_EXPONENT or other.value <= 0:
                continue
            near = one.half + other.half / other.value
            if abs(math.log(other.value) - one.value) <= near < MAX_PAIR_ERROR:
                yield one, other


def _sum_of(known: _Known, wanted: PrintedNumber) -> tuple[str, str | None] | None:
    """Two numbers of the evaluation whose weighted sum this is, with weights in tenths."""
    parts = [
        (means.by_batch, metric.place, any(n.kind not in CROSS_ENTROPIES for n in metric.numbers))
        for metric in known.metrics
        if metric.read and (means := means_of(metric.numbers)) is not None
    ]
    if not any(_compares(metric.numbers) for metric in known.metrics):
        return None
    for i, (first, place, is_other) in enumerate(parts):
        for second, second_place, is_also_other in parts[i + 1 :]:
            if not (is_other or is_also_other) or not first or not second:
                continue
            weights = _weights(wanted, first, second)
            if weights is not None:
                what = (
                    f"{weights[0] / 10:g} times {first:.4f} plus {weights[1] / 10:g} times "
                    f"{second:.4f}, read at {place}"
                )
                return what, second_place or place
    return None


def _weights(wanted: PrintedNumber, first: float, second: float) -> tuple[int, int] | None:
    """The tenths of two numbers that add up to a printed one."""
    near = (wanted.half + MAX_SUM_ERROR * wanted.value) / abs(second) * 10
    for tenths in range(1, int(MAX_TENTHS) + 1):
        left = (wanted.value - tenths / 10 * first) / second * 10
        is_close = abs(left - round(left)) <= near < MAX_TENTH_ERROR
        if 0 < round(left) <= MAX_TENTHS and is_close:
            return tenths, round(left)
    return None


def _compares(numbers: Numbers) -> bool:
    """Whether numbers fall as next tokens become more likely: an entropy, say, does not."""
    return all(number.next_explained >= MIN_NEXT_EXPLAINED for number in numbers)


def _proven(one: _Perplexity, times: int) -> Judgement:
    because = (
        f"The perplexity of {one.reported:.6g} is the exponential of {one.exponent:.4f} "
        f"({one.what}); the cross-entropy of the same tokens is {one.true:.4f}, which makes "
        f"{exponential(one.true):.6g} (in {times} evaluations). {UNHARMED}"
    )
    return Judgement(
        Status.PROVEN,
        because,
        where_of(one.place),
        Wrongness("logarithm of the reported perplexity", one.exponent, one.true, 1e-4),
        remedy="Take the exponential of the unsmoothed cross-entropy alone.",
    )


CAUSE = Cause(
    "perplexity_of_total",
    Stage.EVALUATION,
    "the perplexity is not that of the cross-entropy",
    judge,
    uses=(Evaluation,),
    limits=(
        MIN_NEXT_EXPLAINED,
        MIN_DIFFERENCE,
        MAX_TENTHS,
        MAX_SUM_ERROR,
        MAX_TENTH_ERROR,
        MIN_CAP,
        MAX_CAP,
        MIN_PRINTED_LOSS,
        MAX_PAIR_ERROR,
        MIN_DIGITS,
        MIN_PROVING_DIGITS,
        *REPORTED_LIMITS,
    ),
)
