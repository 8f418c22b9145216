"""Schedules that are over before the run is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import (
    OPTIMIZER,
    SETTINGS,
    check_refuted,
    check_trial,
    check_untested,
    seen,
    steps,
    tried,
)

from lossleuth.causes.optimizer.schedule_too_fast import CHALLENGES, CURE, judge
from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import (
    Ending,
    FoundIn,
    Made,
    Origins,
    ParameterGroup,
    RunSettings,
)

DROPPED = [0.1, 0.05, 0.01, 0.002, *[1e-5] * 16]
SCHEDULED = replace(SETTINGS, schedulers=[Made("train.py:6")])
IN_FILE = Origins(settings={"schedule": FoundIn("c.yaml")})


def rated(rates: list[float], **given: Any) -> Evidence:
    return seen(steps=steps(len(rates), lr=rates), **given)


def test_a_rate_that_is_spent_is_suspected_until_held() -> None:
    stepped = Ending(scheduled=[("StepLR", 20), ("LinearLR", 80), ("none", 0)])
    fault = rated(DROPPED, ending=stepped)
    check_trial(judge, fault, [CURE], OPTIMIZER, min_effect=MIN_EFFECT_NATS)
    judgement = judge(fault)
    assert "16 of 20" in judgement.because and "4 times per update" in judgement.because


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"settings": SCHEDULED}, Where("train.py", 6)),
        ({"origins": IN_FILE}, Where("c.yaml")),
    ],
)
def test_the_schedule_is_named_where_it_is_known(given: Any, where: Where) -> None:
    check_trial(judge, rated(DROPPED, **given), [CURE], where, min_effect=MIN_EFFECT_NATS)


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ([0.1] * 20, "0.1 throughout"),
        ([0.0] * 20, "0 throughout"),
        ([0.1 * (1 - i / 20) for i in range(20)], "0 of 20"),
        ([0.1] * 12 + [1e-5] * 8, "8 of 20"),
        ([1e-5] * 15 + [0.1] * 5, "0 of 20"),
    ],
    ids=["constant", "never above 0", "as long as the run", "a long tail", "a warm-up"],
)
def test_a_schedule_as_long_as_the_run_is_sound(rates: list[float], words: str) -> None:
    check_refuted(judge(rated(rates)), words)


def test_a_rate_that_never_reached_what_was_asked_for_is_no_constant_rate() -> None:
    asked = RunSettings(optimizers=[Made("train.py:5", [ParameterGroup(initial_lr=0.5)])])
    check_refuted(judge(rated([0.1] * 20, settings=asked)), "0 of 20")


HALVED = [0.1] * 8 + [0.03] * 12


@pytest.mark.parametrize("change", CHALLENGES)
@pytest.mark.parametrize(("length", "proven"), [(20, True), (10, False)])
def test_a_schedule_that_costs_the_whole_run_is_too_fast_however_low_it_goes(
    change: Change, length: int, proven: bool
) -> None:
    run = rated(HALVED, ending=Ending(how="end of script"))
    check_refuted(judge(run), "0 of 20")
    judged = judge(tried(run, change, 0.3, steps=length))
    assert (judged.status is Status.PROVEN) is proven


@pytest.mark.parametrize("evidence", [Evidence(), rated([0.1, *[1e-5] * 14])])
def test_a_short_burst_shows_nothing(evidence: Evidence) -> None:
    check_untested(judge(evidence), "steps with a learning rate")
