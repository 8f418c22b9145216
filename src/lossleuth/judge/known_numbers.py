"""Numbers that mean something, recognised aloud: they tell more than any curve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from lossleuth.findings.loss import TrueLoss
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Step

# Findings that are looked at here.
READS = (TrueLoss,)
# To four decimals.
SAME = 5e-5
# Nats by which a loss that has come to rest may miss an entropy of the data.
NEAR = 0.03
# Steps at the end whose mean is taken, and evaluations that make a pattern.
LAST, FEWEST = 20, 3
# Relative, for numbers that are the same up to rounding.
EQUAL = 1e-4
LARGEST_FACTOR = 4096


def recognised(evidence: Evidence) -> list[str]:
    """What numbers of this run are, each in a sentence.

    >>> stuck = Evidence(steps=[Step(i, loss=math.log(34), classes=34) for i in range(3)])
    >>> recognised(stuck)
    ['The loss is 3.5264 in all of 3 steps: ln 34, what equal chances for all classes give.']
    """
    return [*_ending(evidence), *_losses(evidence), *_rates(evidence), *_reads(evidence)]


def _ending(evidence: Evidence) -> Iterator[str]:
    """An end that the user would want to know of."""
    how, code = evidence.ending.how, evidence.ending.code
    if how == "exception":
        yield f"The script itself ended with {evidence.ending.error}."
    elif how == "sys.exit" and code not in (None, 0):
        yield f"The script itself ended by sys.exit({code})."


def _losses(evidence: Evidence) -> Iterator[str]:
    losses = [x for x in evidence.losses if math.isfinite(x)]
    if not losses:
        return
    classes = _classes(evidence)
    uniform = math.log(classes) if classes and classes > 1 else None
    if uniform is not None and abs(losses[0] - uniform) < SAME:
        stuck = [x for x in losses if abs(x - uniform) < SAME]
        when = (
            f"in all of {len(losses)} steps" if len(stuck) == len(losses) else "at the first step"
        )
        yield (
            f"The loss is {losses[0]:.4f} {when}: ln {classes}, what equal chances for all classes "
            "give."
        )
    if len(losses) < LAST:
        return
    end = sum(losses[-LAST:]) / LAST
    unigrams = [s.unigram for s in evidence.steps if s.unigram is not None]
    floors = {
        "of single tokens, which is all that frequencies tell": (
            unigrams[-1] if unigrams else evidence.floors.unigram
        ),
        "of pairs, which is all that the token before tells": evidence.floors.bigram,
    }
    for name, floor in floors.items():
        if floor is not None and abs(end - floor) < NEAR:
            yield f"The loss ends at {end:.3f}, near {floor:.3f}: the entropy {name}."


def _classes(evidence: Evidence) -> int | None:
    known = [s.classes for s in evidence.steps if s.classes is not None]
    sizes = [true.vocabulary for true in evidence.all(TrueLoss)]
    found = [x for x in (*known[-1:], *sizes) if x]
    return found[0] if found else None


def _rates(evidence: Evidence) -> Iterator[str]:
    rates = evidence.learning_rates
    still = sum(rate == 0 for rate in rates)
    if still:
        yield f"The learning rate is exactly 0 in {still} of {len(rates)} steps."


def _reads(evidence: Evidence) -> Iterator[str]:
    by_place: dict[str, list[tuple[float, Step]]] = {}
    for step in evidence.steps:
        for value, place in step.reads or ():
            if isinstance(value, int | float) and math.isfinite(value):
                by_place.setdefault(str(place), []).append((float(value), step))
    for place, found in by_place.items():
        values = [value for value, _ in found]
        if len(values) >= FEWEST and len(set(values)) == 1 and values[0]:
            yield (
                f"The number read at {place} is {values[0]:.6g} each of {len(values)} times: "
                "identical to the last digit."
            )
            continue
        factor = _factor(found)
        if factor is not None:
            yield (
                f"The number read at {place} is {factor} times the loss that is differentiated, "
                f"as many as there are backward passes in a step."
            )


def _factor(found: list[tuple[float, Step]]) -> int | None:
    """The count of micro-batches, where that is what a number is of the loss."""
    ratios: Counter[int] = Counter()
    for value, step in found:
        loss, passes = step.loss, step.backwards
        if not isinstance(loss, float) or not loss or not 1 < passes <= LARGEST_FACTOR:
            return None
        if math.isclose(value / loss, passes, rel_tol=EQUAL):
            ratios[passes] += 1
    best = ratios.most_common(1)
    return best[0][0] if best and best[0][1] == len(found) else None
