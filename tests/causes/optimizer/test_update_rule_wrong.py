"""Updates that no rule explains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import (
    OPTIMIZER,
    alternating,
    check_refuted,
    check_trial,
    check_untested,
    seen,
    tried,
    without_trial,
)

from lossleuth.causes.optimizer.update_rule_wrong import CAUSE, WANTS, judge
from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.findings.update import UpdateLines, UpdateTruth
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import Made, ParameterGroup, Provenance, RunSettings

FLAWED = "Adam without bias correction"


def update(error: float, rule: str = "AdamW", floor: float = 1e-6, **given: Any) -> UpdateTruth:
    return UpdateTruth("MyAdam", rule, error, floor, **{"update_norm": 0.5, **given})


@pytest.mark.parametrize(
    ("found", "harmless"),
    [
        (update(0.4), Status.REFUTED),
        (update(0.4, explained=False), Status.REFUTED),
        (update(1e-6, FLAWED), Status.BENIGN),
        (update(1e-6, "Adam with epsilon under the root"), Status.BENIGN),
    ],
    ids=["another update", "no rule", "no bias correction", "epsilon"],
)
def test_an_update_of_no_sound_rule_is_suspected_until_tried(
    found: UpdateTruth, harmless: Status
) -> None:
    check_trial(judge, seen(found), WANTS, OPTIMIZER, harmless=harmless, min_effect=MIN_EFFECT_NATS)
    assert "3 of 3 recorded updates by MyAdam" in judge(seen(found)).because


def test_the_one_library_that_is_no_package_is_named() -> None:
    fault = replace(seen(update(0.4)), provenance=Provenance(["adam.so"]))
    assert judge(fault).where == Where("adam.so")


def test_the_users_own_line_that_writes_to_parameters_is_named() -> None:
    fault = seen(update(0.4), UpdateLines(("adam.py:30",)))
    assert CAUSE.judged(fault).where == Where("adam.py", 30)


@pytest.mark.parametrize(
    ("rule", "status"), [("AdamW", Status.REFUTED), (FLAWED, Status.PROVEN)], ids=["Lion", "flawed"]
)
def test_an_unknown_rule_that_learns_by_itself_is_meant_so(rule: str, status: Status) -> None:
    evidence = tried(seen(update(0.4, rule)), WANTS[0], 0.5, without=3.0, start=5.0)
    assert judge(evidence).status is status


def test_an_unknown_rule_that_could_not_be_tried_is_not_suspected() -> None:
    lion, flawed = (
        judge(without_trial(seen(found), WANTS)) for found in (update(0.4), update(1e-6, FLAWED))
    )
    assert (lion.status, flawed.status) == (Status.UNTESTED, Status.SUSPECTED)
    assert judge(seen(update(0.4))).wrongness is None


@pytest.mark.parametrize(
    "found",
    [update(1e-6), update(0.005), update(0.02, floor=0.001), update(0.0, FLAWED, explained=False)],
    ids=["exact", "nearly", "rounding", "rule unknown"],
)
def test_updates_by_the_rule_are_sound(found: UpdateTruth) -> None:
    check_refuted(judge(seen(found)), "within")


def test_a_rule_that_is_missed_on_half_of_the_steps_is_not_blamed() -> None:
    check_refuted(judge(alternating([update(0.4)], [update(1e-6)])), "AdamW within 1.0e-06")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        (Evidence(), "no step was recorded"),
        (seen(update(0.4, untested="sparse gradients")), "sparse gradients"),
        (seen(update(0.4, update_norm=0.0)), "no finite update"),
    ],
    ids=["nothing", "not measured", "nothing moved"],
)
def test_without_an_update_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def test_a_run_without_an_optimizer_need_not_show_its_rule_to_be_healthy() -> None:
    assert not CAUSE.is_core(Evidence())
    made = Made("train.py:3", [ParameterGroup()])
    assert CAUSE.is_core(Evidence(settings=RunSettings([made])))
