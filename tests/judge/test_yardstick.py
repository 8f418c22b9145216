"""How far a run is behind its references."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from made_runs import true_loss

from lossleuth.findings.data import Alignment
from lossleuth.findings.finding import Finding
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.health import shortcomings
from lossleuth.judge.yardstick import (
    FEW_STEPS,
    MAX_BEHIND,
    MAX_BEHIND_EARLY,
    MIN_BEHIND_NATS,
    MIN_STEPS,
    Comparison,
    compared,
    furthest_behind,
    told,
    why_no_yardstick,
)
from lossleuth.types.evidence import NEXT_PHASE, Evidence
from lossleuth.types.observed import Ending, Step
from lossleuth.types.yardstick import Yardstick

STEPS, VOCABULARY = 200, 64
ENDED, STOPPED = Ending(how="end of script"), Ending(how="stopped")
NEXT = Alignment(1, {1: 1.0}, 64, 64)


def run(
    losses: Sequence[float], *, true: dict[int, float] | None = None, reference: float = 2.0
) -> Evidence:
    """A run with these losses whose reference stays at another."""
    known = {step: losses[step] for step in (0, 120, 195)} if true is None else true
    return Evidence(
        steps=[Step(step, loss=loss) for step, loss in enumerate(losses)],
        recorded=[RecordedStep(step, [true_loss(loss), NEXT]) for step, loss in known.items()],
        ending=ENDED,
        yardstick=Yardstick(
            steps=range(len(losses)),
            losses=[reference] * len(losses),
            mixture_steps=range(len(losses)),
            mixture=[2.5] * len(losses),
            parameters=900,
            trained=1000,
            rate=1e-2,
            vocabulary=VOCABULARY,
            planned=len(losses),
        ),
    )


def behind(share: float) -> list[float]:
    """Losses that end behind a reference of 2.0 by this share of what it has learnt."""
    end = 2.0 + share * (math.log(VOCABULARY) - 2.0)
    return [4.0] * (STEPS // 2) + [end] * (STEPS // 2)


def comparison(evidence: Evidence) -> Comparison:
    found = compared(evidence)
    assert isinstance(found, Comparison), found
    return found


@pytest.mark.parametrize(
    ("share", "ending", "expected"),
    [
        (MAX_BEHIND - 0.01, ENDED, False),
        (MAX_BEHIND + 0.01, ENDED, True),
        (MAX_BEHIND + 0.01, Ending(how=NEXT_PHASE), True),
        # What is not over may make a slow start good.
        (MAX_BEHIND + 0.01, STOPPED, False),
        (MAX_BEHIND_EARLY + 0.01, STOPPED, True),
        (-0.5, ENDED, False),
    ],
)
def test_a_run_may_be_behind_by_a_share_of_what_the_reference_learnt(
    share: float, ending: Ending, expected: bool
) -> None:
    found = comparison(replace(run(behind(share)), ending=ending))
    assert found.is_behind is expected
    assert found.share_behind == pytest.approx(share)
    assert found.early is (ending is STOPPED)


def test_a_run_that_is_far_behind_is_not_healthy_and_that_comes_first() -> None:
    (first, *others) = shortcomings([], {}, run(behind(0.6)), [])
    assert first == (
        "something holds this run back: a plain transformer of its size reaches 2.00 on the same "
        "batches, a mixture of n-grams 2.50; this run 3.30"
    )
    assert not others
    assert shortcomings([], {}, run(behind(MAX_BEHIND - 0.1)), []) == []


def test_a_reference_that_stops_before_the_run_is_early() -> None:
    evidence = run(behind(MAX_BEHIND + 0.1))
    assert evidence.yardstick is not None
    short = replace(evidence.yardstick, steps=range(160), losses=[2.0] * 160)
    found = comparison(replace(evidence, yardstick=short))
    assert (found.early, found.steps) == (True, 160)
    assert " in 160 steps" in found.sentence


@pytest.mark.parametrize(("ending", "allowed"), [(STOPPED, True), (ENDED, False)])
def test_a_run_that_still_warms_up_may_be_far_behind(ending: Ending, allowed: bool) -> None:
    evidence = replace(run(behind(0.9)), ending=ending)
    rising = [replace(step, lr=1e-5 * (1 + step.step)) for step in evidence.steps]
    assert comparison(replace(evidence, steps=rising)).is_behind is not allowed
    held = [replace(step, lr=1e-3) for step in evidence.steps]
    assert comparison(replace(evidence, steps=held)).is_behind


def test_a_run_of_few_steps_has_hardly_begun() -> None:
    short = run(behind(MAX_BEHIND + 0.05)[-(FEW_STEPS - 1) :], true={0: 4.0})
    assert comparison(short).early and not comparison(short).is_behind
    assert comparison(run(behind(MAX_BEHIND + 0.05)[-FEW_STEPS:], true={0: 4.0})).is_behind


def test_where_little_can_be_learnt_a_small_distance_says_nothing() -> None:
    nearly = math.log(VOCABULARY) - 0.1
    evidence = run([nearly + MIN_BEHIND_NATS - 0.01] * STEPS, reference=nearly)
    assert not comparison(evidence).is_behind
    assert comparison(run([nearly + MIN_BEHIND_NATS + 0.01] * STEPS, reference=nearly)).is_behind


def test_a_smaller_reference_is_said_to_be_one() -> None:
    evidence = run(behind(0.0))
    assert evidence.yardstick is not None
    smaller = replace(evidence.yardstick, parameters=100)
    assert "with 10% of its size" in comparison(replace(evidence, yardstick=smaller)).sentence


def test_a_printed_loss_that_is_not_the_true_one_is_not_compared() -> None:
    # Four times as much is printed; the true loss is known on recorded steps.
    evidence = run([8.0] * STEPS, true={0: 4.0, 120: 2.1, 195: 2.2})
    assert comparison(evidence).run == pytest.approx(2.15)
    # Of which none is in the second half.
    early = run([8.0] * STEPS, true={0: 4.0, 16: 2.1})
    assert compared(early) == "its true loss is known on too few steps"


@pytest.mark.parametrize(
    ("findings", "steps", "words"),
    [
        ((true_loss(2.0), Alignment(2, {2: 1.0}, 64, 64)), STEPS, "its targets are not the next"),
        ((NEXT,), STEPS, "its true loss is not known"),
        ((true_loss(2.0), NEXT), MIN_STEPS - 1, "49 steps are too few to compare"),
        ((true_loss(2.0), NEXT), STEPS, None),
        # Behind a window there is no token to compare with.
        ((true_loss(2.0), Alignment(None, {}, 64, 64)), STEPS, None),
    ],
)
def test_what_cannot_be_compared_has_a_reason(
    findings: tuple[Finding, ...], steps: int, words: str | None
) -> None:
    evidence = Evidence(
        steps=[Step(step) for step in range(steps)],
        recorded=[RecordedStep(0, findings)],
        sizes=[64],
    )
    reason = why_no_yardstick(evidence)
    if words is None:
        assert why_no_yardstick(replace(evidence, sizes=[])) == "what it trains is not known"
    assert reason is words is None or (reason is not None and reason.startswith(words or "x"))


@pytest.mark.parametrize(
    ("yardstick", "words"),
    [
        (Yardstick("its batches were not kept"), "its batches were not kept"),
        (Yardstick(steps=range(9), losses=[2.0] * 9), "there was time for 9 steps of a reference"),
        (
            Yardstick(steps=range(STEPS), losses=[math.nan] * STEPS, vocabulary=64),
            "the reference did not stay finite",
        ),
    ],
)
def test_without_a_comparison_a_run_may_be_healthy_and_the_reason_is_told(
    yardstick: Yardstick, words: str
) -> None:
    evidence = replace(run([9.0] * STEPS), yardstick=yardstick)
    assert compared(evidence) == words
    assert told(evidence) == [f"it is compared with no reference on its batches: {words}"]
    assert shortcomings([], {}, evidence, []) == []


def test_where_nothing_was_measured_nothing_is_told() -> None:
    evidence = replace(run(behind(0.9)), yardstick=None)
    assert (compared(evidence), told(evidence), furthest_behind([evidence])) == (None, [], None)


def test_of_several_phases_the_furthest_behind_is_reported() -> None:
    phases = [run(behind(share)) for share in (0.1, 0.4, -0.2)]
    found = furthest_behind([*phases, replace(phases[0], yardstick=None)])
    assert found == compared(phases[1])


def test_it_comes_back_from_its_public_form() -> None:
    found = comparison(run(behind(MAX_BEHIND + 0.1)))
    assert Comparison.from_json(found.as_json()) == found
    assert found.as_json()["is_behind"] is True
