"""Schedules that are over before the run is."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import OPTIMIZER, SETTINGS, check_refuted, check_trial, check_untested, seen, steps

from lossleuth.causes.optimizer.schedule_too_fast import CURE, LEAST, judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where

DROPPED = [0.1, 0.05, 0.01, 0.002, *[1e-5] * 16]
SCHEDULED = {**SETTINGS, "schedulers": [{"place": "train.py:6"}]}


def rated(rates: list[float], **given: Any) -> Evidence:
    return seen(steps=steps(len(rates), lr=rates), **given)


def test_a_rate_that_is_spent_is_suspected_until_held() -> None:
    fault = rated(DROPPED, ending={"scheduled": [["StepLR", 20], ["LinearLR", 80], ["none", 0]]})
    check_trial(judge, fault, [CURE], OPTIMIZER, least=LEAST)
    judgement = judge(fault)
    assert "16 of 20" in judgement.because and "4 times per update" in judgement.because


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"settings": SCHEDULED}, Where("train.py", 6)),
        ({"origins": {"settings": {"schedule": {"file": "c.yaml"}}}}, Where("c.yaml")),
    ],
)
def test_the_schedule_is_named_where_it_is_known(given: Any, where: Where) -> None:
    check_trial(judge, rated(DROPPED, **given), [CURE], where, least=LEAST)


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


@pytest.mark.parametrize("evidence", [Evidence(), rated([0.1, *[1e-5] * 14])])
def test_a_short_burst_tells_nothing(evidence: Evidence) -> None:
    check_untested(judge(evidence), "steps with a learning rate")
