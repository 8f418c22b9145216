"""Whether a run learns."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from made_runs import true_loss

from lossleuth.findings.data import Alignment
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.learning import OVERFIT, learning
from lossleuth.types.change import Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Ending, Floors, Step


def run(losses: list[float], unigram: float | None = None, **more: Any) -> Evidence:
    return Evidence(steps=[Step(loss=loss, unigram=unigram) for loss in losses], **more)


def falling(start: float, end: float) -> list[float]:
    return [start + (end - start) * i / 49 for i in range(50)]


def overfit(start: float, end: float) -> dict[str, Any]:
    return {"effects": {OVERFIT: Effect(OVERFIT, 0.0, math.inf, 1, 20, start, end, start)}}


@pytest.mark.parametrize(
    ("evidence", "learns"),
    [
        (run(falling(3, 1), unigram=2.5), True),
        (run(falling(3, 1)), True),
        # Down to how frequent tokens are, and no further: nothing but that was learnt.
        (run(falling(3, 2.49), unigram=2.5), False),
        (run([3.0] * 50, unigram=2.5), False),
        (run(falling(1, 3)), False),
        (run([3.0, *[math.nan] * 9]), False),
        (run([3.0]), None),
        (run([]), None),
        # A trained model that goes on is not blamed for falling no more.
        (run([1.0, 1.01, 0.99] * 20, unigram=2.5), True),
        (run([3.0] * 50, unigram=2.5, **overfit(3.0, 0.1)), True),
        (run([3.0] * 50, unigram=2.5, **overfit(3.0, 2.9)), False),
    ],
)
def test_learning_is_told_from_the_losses(evidence: Evidence, learns: bool | None) -> None:
    assert learning(evidence).learns is learns


def test_the_numbers_are_said() -> None:
    told = learning(run(falling(3, 1), unigram=2.5)).sentence
    assert told == ("loss 3.000 → 1.184; a unigram model scores 2.500")
    one = learning(run([3.0] * 50, unigram=2.5, **overfit(3.0, 0.1))).sentence
    assert one.endswith("overfitting one batch 3.000 → 0.100")


def test_a_loss_that_is_not_the_true_one_does_not_count() -> None:
    found = [true_loss(3.0)]
    recorded = [RecordedStep(1, found), RecordedStep(2), RecordedStep(3, found)]
    # What is differentiated falls by half; cross-entropy does not move.
    assert learning(run(falling(300, 150), recorded=recorded)).learns is False
    assert learning(run(falling(3, 1), recorded=recorded)).learns is True


def test_noise_is_not_taken_for_learning() -> None:
    noisy = [3.0, 2.0, 4.0, 2.5, 3.5] * 4
    assert learning(run(noisy)).learns is False


def parked(count: int = 120, bigram: float = 1.5, rates: list[float] | None = None) -> Evidence:
    """A run that stays at the entropy of its tokens, and could learn one batch by heart."""
    given = rates or [1e-3] * count
    steps = [Step(loss=2.5, unigram=2.5, lr=rate) for rate in given]
    return Evidence(steps=steps, floors=Floors(2.5, bigram), **overfit(2.5, 0.1))


@pytest.mark.parametrize(
    ("evidence", "learns"),
    [
        (parked(), False),
        # Too short, nothing in pairs to be learnt, or still warming up.
        (parked(50), True),
        (parked(bigram=2.4), True),
        (parked(rates=[1e-5 * i for i in range(1, 60)] * 2 + [1e-2] * 20), True),
    ],
)
def test_by_heart_is_not_enough_where_pairs_of_tokens_would_tell(
    evidence: Evidence, learns: bool
) -> None:
    found = learning(evidence)
    assert found.learns is learns
    assert ("the token before would give 1.500" in found.sentence) is not learns


def test_pairs_of_another_text_than_the_targets_say_nothing() -> None:
    """Rows that are mostly padding: what is read is easy to guess, the targets are not."""
    steps = [Step(loss=3.6 - 0.02 * i, unigram=3.45, lr=1e-3) for i in range(70)]
    steps += [Step(loss=2.1, unigram=3.45, lr=1e-3) for _ in range(110)]
    floors = Floors(2.2, 0.5)
    assert learning(Evidence(steps=steps, floors=floors)).learns is True
    # The same numbers of the targets' own text: far from what pairs would tell.
    own = [replace(step, unigram=2.2) for step in steps]
    assert learning(Evidence(steps=own, floors=floors)).learns is False


def test_where_targets_are_not_seen_what_is_read_says_how_much_there_is_to_learn() -> None:
    steps = [Step(loss=4.46 - 2e-4 * i, lr=1e-3) for i in range(120)]
    assert learning(Evidence(steps=steps)).learns is True
    floors = Floors(3.45, 1.27)
    found = learning(Evidence(steps=steps, floors=floors))
    assert found.learns is False and "scores 3.450" in found.sentence


def test_a_run_that_stops_far_above_what_pairs_tell_does_not_learn() -> None:
    floors = Floors(2.5, 0.5)
    early = [3.0 - 0.02 * i for i in range(40)]
    for end, learns in ((2.2, False), (1.5, True)):
        losses = [*early, *[end] * 120]
        steps = [Step(loss=loss, unigram=2.5, lr=1e-3) for loss in losses]
        assert learning(Evidence(steps=steps, floors=floors)).learns is learns
    # Statistically it falls; at such a pace the text is known after seventy such runs.
    creeping = [*early, *[2.2 - 1e-4 * i for i in range(120)]]
    steps = [Step(loss=loss, unigram=2.5, lr=1e-3) for loss in creeping]
    assert learning(Evidence(steps=steps, floors=floors)).learns is False
    falling_still = [3.0 - 0.005 * i for i in range(160)]
    steps = [Step(loss=loss, unigram=2.5, lr=1e-3) for loss in falling_still]
    assert learning(Evidence(steps=steps, floors=floors)).learns is True


@pytest.mark.parametrize(
    ("shares", "count", "loss", "learns"),
    [
        ({0: 0.04, 1: 0.05}, 120, 2.5, False),
        # Targets of the text, a short run, nothing known of targets, or something learnt.
        ({0: 0.04, 1: 1.0}, 120, 2.5, True),
        ({0: 0.04, 1: 0.05}, 50, 2.5, True),
        ({}, 120, 2.5, True),
        ({0: 0.04, 1: 0.05}, 120, 2.0, True),
    ],
)
def test_by_heart_is_not_enough_where_targets_are_not_of_the_text(
    shares: dict[int, float], count: int, loss: float, learns: bool
) -> None:
    recorded = [RecordedStep(1, [Alignment(None, shares, 64, 64)])] * 2
    evidence = run([2.9, *[loss] * count], unigram=2.5, recorded=recorded, **overfit(2.5, 0.1))
    found = learning(evidence)
    assert found.learns is learns
    assert ("no offset explains more than 5% of the targets" in found.sentence) is not learns


def test_a_script_that_crashed_is_not_known_to_learn() -> None:
    ending = Ending(how="exception", error="ValueError: shapes")
    found = learning(run(falling(3, 1), ending=ending))
    assert found.learns is None
    assert found.sentence == "after 50 steps the script itself ended with ValueError: shapes"


def test_a_run_that_turned_for_the_worse_does_not_learn_however_far_it_came() -> None:
    losses = [*falling(4, 1), *[2.9] * 20]
    steps = [Step(step=i, loss=x, unigram=3.4) for i, x in enumerate(losses)]
    found = learning(Evidence(steps=steps))
    assert found.learns is False
    assert found.sentence.startswith("the loss falls to 1.") and "ends at 2.900" in found.sentence
