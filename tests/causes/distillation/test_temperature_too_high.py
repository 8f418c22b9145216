"""Softened away."""

from __future__ import annotations

import math
from typing import Any

from evidence import check_refuted, check_trial, check_untested
from lessons_seen import COMPARED, UNTAUGHT, taught

from lossleuth.causes.distillation.temperature_too_high import CAUSE, judge
from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.types.change import Change

HOT: dict[str, Any] = {"teacher_temperature": 50.0, "student_temperature": 50.0, "weight": 2500.0}


def test_where_little_is_left_a_lower_one_is_tried() -> None:
    fault = taught(**HOT, levels={"2": (1.0, 1.0), "50": (0.6, 0.1)})
    change = Change.of("teach_by_reference", temperature=2.0, weight=1.0)
    check_trial(judge, fault, [change], COMPARED, min_effect=MIN_EFFECT_NATS)


def test_a_large_loss_is_no_fault() -> None:
    level = taught(**HOT, levels={"2": (100.0, 1.0), "50": (2e4, 0.9)})
    check_refuted(judge(level), "0.90")
    half = taught(**HOT, levels={"2": (8.8, 0.195), "50": (9.2, 0.091)})
    check_refuted(judge(half), "0.47")


def test_usual_temperatures_are_refuted() -> None:
    check_refuted(judge(taught()), "temperature is 2")
    lower_is_better = {"2": (1.0, 1.0), "4": (0.5, 0.4)}
    check_refuted(judge(taught(teacher_temperature=4.0, levels=lower_is_better)), "4 is usual")
    check_refuted(CAUSE.judged(UNTAUGHT), "0 of 3")


def test_what_could_not_be_looked_at_is_untested() -> None:
    check_untested(judge(taught(levels={})), "could not be compared")
    still = taught(**HOT, levels={"2": (0.0, 0.0), "50": (0.0, 0.0)})
    check_untested(judge(still), "no gradient")


def test_levels_that_are_no_numbers_prove_nothing() -> None:
    broken = taught(**HOT, levels={"2": (math.inf, 1.0), "50": (math.inf, 0.1)})
    check_untested(judge(broken), "no gradient")
