"""The standing battery: which challenges a run takes, what to run next, and what their gains mean.

One seed screens, the best prove themselves on others, and then over as many steps as the run has.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from lossleuth.causes.reasoning import MIN_EFFECT_NATS, covers_run
from lossleuth.judge.choosing import SCREENING_SEEDS, Wish, fresh_seeds
from lossleuth.judge.gain import Gain
from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence

# Nats that one pair of runs has to gain for more of them to be made: half of what counts.
MIN_PROMISE_NATS = 0.05
# So many of those that gain most prove themselves on other seeds.
MAX_CONFIRMED = 3
# So many are screened at once: as many runs as there are cores, mostly.
SCREENED_AT_ONCE = 2

# What was run: a change, on these seeds, for so many steps.
Asked = Set[tuple[Change, tuple[int, ...], int]]


def applicable(battery: Sequence[Challenge], evidence: Evidence) -> list[Challenge]:
    """The challenges that make sense for a run."""
    return [challenge for challenge in battery if challenge.applies(evidence)]


def next_challenge(
    battery: Sequence[Challenge],
    evidence: Evidence,
    asked: Asked,
    *,
    seeds: int,
    steps: int,
    whole: int | None,
) -> Wish | None:
    """What to run next: a few are screened, of those that gain the best are confirmed.

    Runs have so many steps; `whole` is how many the observed run has, where there is time for them.
    """
    taken = applicable(battery, evidence)
    waiting = [c for c in taken if not _is_settled(c, evidence, asked)]
    # Those first without which no run is called healthy.
    waiting.sort(key=lambda challenge: challenge.bias is not Bias.NONE)
    for length, over_whole_run in ((steps, False), (whole, True)):
        alike = [c.change for c in waiting if c.over_whole_run is over_whole_run]
        if alike and length is not None:
            return Wish(tuple(alike[:SCREENED_AT_ONCE]), SCREENING_SEEDS, length)
    fresh = fresh_seeds(seeds)
    known = [(c, evidence.effects[c.change]) for c in taken if c.change in evidence.effects]
    promising = [(c, e) for c, e in known if e.nats >= MIN_PROMISE_NATS and c.bias is not Bias.FITS]
    promising.sort(key=lambda pair: (pair[0].bias is Bias.TUNING, -pair[1].nats))
    for challenge, effect in promising[:MAX_CONFIRMED]:
        change = challenge.change
        if effect.seeds < seeds and (change, fresh, effect.steps) not in asked:
            return Wish((change,), fresh, effect.steps)
        longer = whole is not None and not effect.steps >= whole
        longer = longer and challenge.bias is not Bias.TUNING
        if longer and effect.is_better and (change, fresh, whole) not in asked:
            return Wish((change,), fresh, whole)
    return None


def _is_settled(challenge: Challenge, evidence: Evidence, asked: Asked) -> bool:
    """Whether it was tried, here or for a suspicion, or could not be."""
    change = challenge.change
    tried = change in evidence.effects or change in evidence.failed
    return tried or any(change == known for known, _, _ in asked)


def gains(battery: Sequence[Challenge], evidence: Evidence) -> list[Gain]:
    """Sure gains that would count as harm, the largest first."""
    found = []
    for challenge in applicable(battery, evidence):
        effect = evidence.effects.get(challenge.change)
        if effect is not None and effect.is_better and effect.nats >= MIN_EFFECT_NATS:
            counts = _counts(challenge.bias, effect, evidence)
            found.append(Gain(challenge.words, challenge.bias, effect, counts))
    return sorted(found, key=lambda gain: (not gain.counts, -gain.effect.nats))


def unchallenged(battery: Sequence[Challenge], evidence: Evidence) -> list[str]:
    """In words, the challenges that a healthy run has to stand and that were not tried.

    One whose gain on one seed was not confirmed was not stood either.
    """
    found = []
    for challenge in applicable(battery, evidence):
        effect = evidence.effects.get(challenge.change)
        if challenge.bias is not Bias.NONE or challenge.change in evidence.failed:
            continue
        if effect is None or (effect.seeds < 2 and effect.nats >= MIN_EFFECT_NATS):
            found.append(challenge.words)
    return found


def _counts(bias: Bias, effect: Effect, evidence: Evidence) -> bool:
    if bias is Bias.EARLY:
        return covers_run(evidence, effect)
    return bias is Bias.NONE
