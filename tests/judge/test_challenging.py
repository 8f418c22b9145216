"""What to run next of the standing battery, and what gains mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lossleuth.judge.challenging import gains, next_challenge, unchallenged
from lossleuth.judge.choosing import SCREENING_SEEDS, Wish
from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Ending, Step

LOWER, HIGHER, HELD, DROPOUT = (
    Challenge(Change.of("scale_lr", factor=0.1), "lower"),
    Challenge(Change.of("scale_lr", factor=10.0), "higher", Bias.EARLY),
    Challenge(Change.of("hold_lr"), "held", over_whole_run=True),
    Challenge(Change.of("no_dropout"), "without dropout", Bias.FITS),
)
RUN = Evidence(steps=[Step(i, loss=3.0) for i in range(200)], ending=Ending(how="end of script"))
TUNED = Challenge(Change.of("scale_lr", factor=3.0), "a little higher", Bias.TUNING)
FRESH = (1, 2, 3)


def with_effect(
    run: Evidence, challenge: Challenge, nats: float, seeds: int = 1, steps: int = 80
) -> Evidence:
    effect = Effect(challenge.change, nats, 0.01, seeds, steps, 3.0, 3.0 - nats, 4.0)
    return replace(run, effects={**run.effects, challenge.change: effect})


def wish(
    battery: list[Challenge], run: Evidence, asked: set[Wish], whole: int | None = 200
) -> Wish | None:
    known = {(c, w.seeds, w.steps or 80) for w in asked for c in w.changes}
    return next_challenge(battery, run, known, seeds=3, steps=80, whole=whole)


def test_all_are_screened_on_one_seed_before_any_is_confirmed() -> None:
    battery = [LOWER, HIGHER, HELD, DROPOUT]
    first = wish(battery, RUN, set())
    assert first == Wish((LOWER.change, HIGHER.change), SCREENING_SEEDS, 80)
    run = with_effect(with_effect(RUN, LOWER, 0.5), HIGHER, 0.0)
    assert wish(battery, run, {first}) == Wish((DROPOUT.change,), SCREENING_SEEDS, 80)
    run = with_effect(run, DROPOUT, 0.7)
    # What shows only over the whole run is screened over it, if there is time.
    assert wish(battery, run, {first}) == Wish((HELD.change,), SCREENING_SEEDS, 200)
    assert wish(battery, run, {first}, whole=None) == Wish((LOWER.change,), FRESH, 80)


def test_those_come_first_that_a_healthy_run_has_to_stand() -> None:
    shuffled = Challenge(Change.of("shuffle_batches"), "shuffled")
    first = wish([HIGHER, DROPOUT, LOWER, shuffled], RUN, set())
    assert first == Wish((LOWER.change, shuffled.change), SCREENING_SEEDS, 80)


def test_what_gains_proves_itself_on_other_seeds_and_then_over_the_whole_run() -> None:
    run = with_effect(RUN, LOWER, 0.5)
    first = wish([LOWER], run, set())
    assert first == Wish((LOWER.change,), FRESH, 80)
    run = with_effect(RUN, LOWER, 0.4, seeds=3)
    assert wish([LOWER], run, {first}) == Wish((LOWER.change,), FRESH, 200)
    assert wish([LOWER], run, {first}, whole=None) is None
    assert wish([LOWER], with_effect(RUN, LOWER, 0.4, 3, 200), {first}) is None


def test_a_matter_of_tuning_waits_and_takes_no_whole_run() -> None:
    both = with_effect(with_effect(RUN, TUNED, 0.9), LOWER, 0.1)
    first = wish([TUNED, LOWER], both, set())
    assert first == Wish((LOWER.change,), FRESH, 80)
    assert wish([TUNED], both, {first}) == Wish((TUNED.change,), FRESH, 80)
    assert wish([TUNED], with_effect(RUN, TUNED, 0.9, seeds=3), {first}) is None


def test_what_gains_nothing_or_only_fits_is_not_confirmed() -> None:
    for challenge, nats in ((LOWER, 0.04), (LOWER, -1.0), (DROPOUT, 2.0)):
        assert wish([challenge], with_effect(RUN, challenge, nats), set()) is None


def test_what_was_tried_for_a_suspicion_or_cannot_be_made_is_not_screened_again() -> None:
    failed = replace(RUN, failed={LOWER.change: "it has no rate"})
    assert wish([LOWER], failed, set()) is None
    assert wish([LOWER], with_effect(RUN, LOWER, 0.0, seeds=3), set()) is None


@pytest.mark.parametrize(
    ("challenge", "steps", "how", "counts"),
    [
        (LOWER, 80, "end of script", True),
        (HIGHER, 80, "end of script", False),
        (HIGHER, 200, "end of script", True),
        # The script went on: nobody knows what a higher rate would end at.
        (HIGHER, 200, "stopped", False),
        (DROPOUT, 200, "end of script", False),
        (TUNED, 200, "end of script", False),
    ],
)
def test_a_gain_counts_unless_it_may_be_lost_again(
    challenge: Challenge, steps: int, how: str, counts: bool
) -> None:
    run = replace(RUN, ending=Ending(how=how))
    (found,) = gains([challenge], with_effect(run, challenge, 0.4, 3, steps))
    assert found.counts is counts


def test_a_gain_that_is_small_or_of_one_seed_is_none() -> None:
    assert gains([LOWER], with_effect(RUN, LOWER, 0.09, 3)) == []
    assert gains([LOWER], with_effect(RUN, LOWER, 2.0, 1)) == []


def test_a_healthy_run_has_stood_every_challenge_that_has_no_excuse() -> None:
    assert unchallenged([LOWER, HIGHER, DROPOUT], RUN) == ["lower"]
    assert unchallenged([LOWER], with_effect(RUN, LOWER, 0.0)) == []
    # One pair that gains much is a question, and no answer.
    assert unchallenged([LOWER], with_effect(RUN, LOWER, 0.4)) == ["lower"]
    assert unchallenged([LOWER], replace(RUN, failed={LOWER.change: "it has no rate"})) == []
