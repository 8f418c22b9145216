"""What to try next, for how long, and what to make of it: decisions without any doing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status

# A trial has so many steps, within what it may take.
FEWEST_STEPS, MOST_STEPS = 24, 80
TRIAL_SECONDS = 4.0
# A trial that shows no harm is made once more, at most so many times as long.
LONGER = 8


def next_wishes(
    wishes: Sequence[tuple[str, tuple[Change, ...]]],
    effects: dict[Change, Effect],
    failed: dict[Change, str],
    asked: set[tuple[Change, int]],
    seeds: int,
) -> tuple[list[Change], int] | None:
    """What the first cause on the ladder asks for: several changes on one seed, then the best.

    Causes that ask for several, such as other rates, are compared with each other before any of
    them is tried on all seeds.
    """
    singles = [changes for _, changes in wishes if len(changes) == 1]
    several = [c for _, changes in wishes if len(changes) > 1 for c in changes]
    for changes in singles:
        if changes[0] not in failed and (changes[0], seeds) not in asked:
            return list(changes), seeds
    screened = [c for c in dict.fromkeys(several) if c not in effects and c not in failed]
    screened = [c for c in screened if (c, 1) not in asked]
    if screened:
        return screened, 1
    known = [c for c in several if c in effects and (c, seeds) not in asked]
    best = max(known, key=lambda c: effects[c].nats, default=None)
    return None if best is None else ([best], seeds)


def merged(
    known: dict[str, Judgement], again: dict[str, Judgement], cures: Sequence[Change] = ()
) -> dict[str, Judgement]:
    """What was judged with cures in outranks what was judged before, where it found more."""
    inside = " and ".join(cure.sentence for cure in cures)
    told = f" (seen with {inside} in)" if inside else ""
    found = dict(known)
    for identifier, judgement in again.items():
        before = known[identifier].status
        more = judgement.status is Status.PROVEN and before is not Status.PROVEN
        settled = judgement.status in (Status.REFUTED, Status.BENIGN)
        if more or (before in (Status.SUSPECTED, Status.UNTESTED) and settled):
            because = f"{judgement.because.removesuffix('.')}{told}"
            found[identifier] = replace(judgement, because=because)
    return found


def trial_steps(evidence: Evidence) -> int:
    """As many steps as fit, and no more than the run was seen to make."""
    seconds = [s.seconds for s in evidence.steps if s.seconds]
    usual = statistics.median(seconds) if seconds else 0.05
    fitting = int(TRIAL_SECONDS / max(usual, 1e-4))
    most = min(MOST_STEPS, max(4, len(evidence.steps)))
    return max(min(FEWEST_STEPS, most), min(fitting, most))


def first_bad(evidence: Evidence) -> int | None:
    """The first step whose loss or gradient is not finite."""
    for step in evidence.steps:
        values = (step.loss, step.grad_norm)
        if any(v is not None and not math.isfinite(v) for v in values):
            return step.step
    return None


def missed_evaluations(evidence: Evidence) -> tuple[int, ...]:
    """Steps before which there was an evaluation, where none was recorded: the last two."""
    seen = [e for e in evidence.evaluations if e.evaluation.metrics and e.step]
    recorded = {s.step for s in evidence.recorded} | {e.step for e in evidence.evaluations}
    steps = [s for s in evidence.ending.evaluated if s not in recorded]
    return () if seen else tuple(sorted(steps)[-2:])


def joined(evidence: Evidence, again: Evidence) -> Evidence:
    """What was observed, and other steps of the same run that were recorded apart."""
    return replace(
        evidence,
        recorded=[*evidence.recorded, *again.recorded],
        evaluations=[*evidence.evaluations, *again.evaluations],
    )


def briefly_tried(judgements: dict[str, Judgement], steps: int) -> dict[Change, int]:
    """Changes that undid a fault and made no difference, and how many times as long they may run.

    A trial may be as long as the run was seen to be: so many steps.
    """
    found: dict[Change, int] = {}
    for judgement in judgements.values():
        harm = judgement.harm
        there = judgement.wrongness is not None and judgement.status is Status.BENIGN
        if there and harm is not None:
            times = min(LONGER, steps // max(1, harm.steps))
            if times > 1:
                found.setdefault(harm.change, times)
    return found
