"""A rate of 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import OPTIMIZER, SETTINGS, check_proven, check_refuted, check_untested, seen, steps

from lossleuth.causes.optimizer.lr_zero import judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where
from lossleuth.types.observed import FoundIn, Made, Origins

SCHEDULED = replace(SETTINGS, schedulers=[Made("train.py:6")])
IN_FILE = Origins(settings={"schedule": FoundIn("c.yaml")})


def rated(rates: list[float], **given: Any) -> Evidence:
    return seen(steps=steps(len(rates), lr=rates, **given.pop("scalars", {})), **given)


@pytest.mark.parametrize("rates", [[0.0] * 10, [0.0] * 19 + [0.1]])
def test_a_rate_of_zero_in_nearly_all_steps_is_proven(rates: list[float]) -> None:
    words = f"{rates.count(0.0)} of {len(rates)} steps"
    check_proven(judge(rated(rates)), OPTIMIZER, words, "above 0")


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"settings": SCHEDULED}, Where("train.py", 6)),
        ({"settings": SCHEDULED, "origins": IN_FILE}, Where("c.yaml")),
    ],
)
def test_the_schedule_is_named_where_there_is_one(given: Any, where: Where) -> None:
    check_proven(judge(rated([0.0] * 10, **given)), where)


@pytest.mark.parametrize("rates", [[0.1] * 10, [0.0] * 4 + [0.1] * 6, [0.1] * 5 + [0.0] * 5])
def test_a_warm_up_and_a_decay_to_zero_are_sound(rates: list[float]) -> None:
    check_refuted(judge(rated(rates)), f"{rates.count(0.0)} of 10", "0.1 at most")


def test_one_group_with_a_rate_is_enough() -> None:
    groups = {"rates": [[0.0, 0.1]] * 10}
    check_refuted(judge(rated([0.0] * 10, scalars=groups)), "0 of 10", "0.1 at most")


@pytest.mark.parametrize("evidence", [Evidence(), rated([0.0]), rated([0.0] * 7)])
def test_the_first_steps_of_a_warm_up_show_nothing(evidence: Evidence) -> None:
    check_untested(judge(evidence), "steps with a learning rate")


def test_a_rate_that_runs_out_is_that_of_a_schedule_that_is_too_fast() -> None:
    check_refuted(judge(rated([0.1] * 8 + [0.0] * 92)), "from step 9 on", "schedule_too_fast")
    check_refuted(judge(rated([0.0] + [0.1] * 8 + [0.0] * 92)), "from step 10 on")
    # A whole number that is divided once too often may give a first step or two.
    check_proven(judge(rated([0.1] * 2 + [0.0] * 98)), OPTIMIZER, "98 of 100")
    check_proven(judge(rated([0.1] * 4 + [0.0] * 92 + [0.1] * 4)), OPTIMIZER, "92 of 100")
