"""What to try next and for how long, what to look at again: decisions without any doing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from lossleuth.causes.turning import turn
from lossleuth.judge.judging import Judgements, harmful
from lossleuth.judge.learning import has_crashed, learning
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status

# A trial has so many steps, within what it may take.
MIN_TRIAL_STEPS, MAX_TRIAL_STEPS = 24, 80
TRIAL_SECONDS = 4.0
# Where the loss turns late, so many steps after that; and so many times the length of a trial that
# all of its runs take together, two at a time.
STEPS_AFTER_TURN, TRIAL_ROUNDS = 40, 4
# A run is taken to hang after so many times what the observed one would have taken, and a minimum.
# Picked by hand: runs share the cores, and a change may make every step dearer.
TIMES_SLOWER, MIN_PATIENCE = 10.0, 30.0
# Share of the time left that screening may take, and in so many rounds.
SCREENING_SHARE, SCREENING_ROUNDS = 0.4, 7
# Share of it that pairs of whole runs may take.
WHOLE_SHARE = 0.9
# How much slower a step is while another run has the other core. Picked by hand.
SLOWER_TOGETHER = 1.5
# A trial that shows no harm is made once more, at most so many times as long.
MAX_TIMES_LONGER = 8


def next_cure(judgements: Mapping[str, Judgement], cures: Sequence[Change]) -> Change | None:
    """The cure of a proven fault with which the program has not been looked at yet."""
    for judgement in judgements.values():
        cure = judgement.cure
        if judgement.status is Status.PROVEN and cure is not None and cure not in cures:
            return cure
    return None


def is_unexplained(causes: Sequence[Cause], judgements: Judgements, evidence: Evidence) -> bool:
    """Whether a run does not learn, and no cause says why."""
    found = harmful(causes, judgements, (Status.PROVEN, Status.SUSPECTED))
    return not (found or learning(evidence).learns or has_crashed(evidence))


def is_proven_by_trial(judgements: Judgements) -> bool:
    """Whether a trial has proven a cause."""
    return any(j.status is Status.PROVEN and j.harm for j in judgements.values())


@dataclass(frozen=True)
class Wish:
    """Changes to be tried, each on paired runs with these seeds, and for how many steps."""

    changes: tuple[Change, ...]
    seeds: tuple[int, ...]
    # As many as usual, where None.
    steps: int | None = None


# What is compared first is compared on this seed; the best proves itself on others, since of many
# looks at noise one finds something.
SCREENING_SEEDS = (0,)


def fresh_seeds(count: int) -> tuple[int, ...]:
    """Seeds that were not used to choose a change.

    >>> fresh_seeds(3)
    (1, 2, 3)
    """
    return tuple(range(1, count + 1))


def next_wish(
    wanted: Sequence[tuple[str, tuple[Change, ...]]],
    effects: Mapping[Change, Effect],
    failed: Mapping[Change, str],
    asked: Set[tuple[Change, tuple[int, ...]]],
    seeds: int,
) -> Wish | None:
    """What the first cause on the ladder asks for: several changes on one seed, then the best.

    Causes that ask for several, such as other rates, are compared with each other before any of
    them is tried on all seeds.
    """
    singles = [changes for _, changes in wanted if len(changes) == 1]
    several = [c for _, changes in wanted if len(changes) > 1 for c in changes]
    all_seeds, fresh = tuple(range(seeds)), fresh_seeds(seeds)
    for (change,) in singles:
        # One that was screened before proves itself on other seeds.
        seeds_of = fresh if (change, SCREENING_SEEDS) in asked else all_seeds
        if change not in failed and not {(change, fresh), (change, all_seeds)} & asked:
            return Wish((change,), seeds_of)
    screened = [c for c in dict.fromkeys(several) if c not in effects and c not in failed]
    screened = [c for c in screened if (c, SCREENING_SEEDS) not in asked]
    if screened:
        return Wish(tuple(screened), SCREENING_SEEDS)
    known = [c for c in several if c in effects and (c, fresh) not in asked]
    best = max(known, key=lambda c: effects[c].nats, default=None)
    return None if best is None else Wish((best,), fresh)


def trial_steps(evidence: Evidence, left: float = 0.0) -> int:
    """As many steps as fit, and no more than the run was seen to make.

    Where the loss turns late, a trial goes on until after that, if so many seconds are enough.
    """
    fitting = int(TRIAL_SECONDS / usual_seconds(evidence))
    most = min(MAX_TRIAL_STEPS, max(4, len(evidence.steps)))
    usual = max(min(MIN_TRIAL_STEPS, most), min(fitting, most))
    turned = turn(evidence)
    if turned is None or not turned.is_sure:
        return usual
    wanted = min(turned.step + STEPS_AFTER_TURN, steps_seen(evidence))
    seconds = TRIAL_ROUNDS * SLOWER_TOGETHER * wanted * usual_seconds(evidence)
    return max(usual, wanted) if seconds < WHOLE_SHARE * left else usual


def steps_seen(evidence: Evidence) -> int:
    """Steps up to the last that was seen; of a long run, those in the middle are not held."""
    return evidence.steps[-1].step + 1 if evidence.steps else 0


def challenge_steps(evidence: Evidence, left: float, overhead: float) -> int:
    """Steps of a run that screens a challenge: as many as fit, up to the whole run.

    So many seconds are left, and a run takes `overhead` seconds beside its steps.
    """
    each = SCREENING_SHARE * left / SCREENING_ROUNDS - overhead
    fitting = int(each / (SLOWER_TOGETHER * usual_seconds(evidence)))
    return min(max(fitting, trial_steps(evidence)), max(1, len(evidence.steps)))


def whole_steps(evidence: Evidence, left: float, overhead: float, seeds: int) -> int | None:
    """The steps of the observed run, where there is time for pairs of as many; else None."""
    steps = len(evidence.steps)
    each = overhead + SLOWER_TOGETHER * steps * usual_seconds(evidence)
    return steps if seeds * each < WHOLE_SHARE * left else None


def trial_patience(evidence: Evidence, steps: int, overhead: float) -> float:
    """Seconds after which a run of so many steps hangs, by the speed of the observed one.

    `overhead` is what that one took beside its steps.
    """
    return MIN_PATIENCE + TIMES_SLOWER * (overhead + steps * usual_seconds(evidence))


def usual_seconds(evidence: Evidence) -> float:
    """What a step takes."""
    seconds = [s.seconds for s in evidence.steps if s.seconds]
    return max(statistics.median(seconds), 1e-4) if seconds else 0.05


def first_bad(evidence: Evidence) -> int | None:
    """The first step whose loss or gradient is not finite."""
    for step in evidence.steps:
        values = (step.loss, step.grad_norm)
        if any(v is not None and not math.isfinite(v) for v in values):
            return step.step
    return None


def missed_evaluations(evidence: Evidence, seconds: float) -> tuple[int, ...]:
    """Steps before which there was an evaluation, where none was recorded.

    They are the last two that the program reaches in so many seconds.
    """
    seen = [e for e in evidence.evaluations if e.evaluation.metrics and e.step]
    recorded = {s.step for s in evidence.recorded} | {e.step for e in evidence.evaluations}
    reached = seconds / usual_seconds(evidence)
    steps = [s for s in evidence.ending.evaluated if s not in recorded and s <= reached]
    return () if seen else tuple(sorted(steps)[-2:])


def joined(evidence: Evidence, again: Evidence) -> Evidence:
    """What was observed, and other steps of the same run that were recorded apart."""
    return replace(
        evidence,
        recorded=[*evidence.recorded, *again.recorded],
        evaluations=[*evidence.evaluations, *again.evaluations],
    )


def briefly_tried(judgements: Mapping[str, Judgement], steps: int) -> dict[Change, int]:
    """Changes that undid a fault and made no difference, and how many times as long they may run.

    A trial may be as long as the run was seen to be: so many steps.
    """
    found: dict[Change, int] = {}
    for judgement in judgements.values():
        harm = judgement.harm
        undecided = judgement.status in (Status.BENIGN, Status.SUSPECTED)
        there = judgement.wrongness is not None and undecided
        if there and harm is not None:
            times = min(MAX_TIMES_LONGER, steps // max(1, harm.steps))
            if times > 1:
                found.setdefault(harm.change, times)
    return found
