"""Gradients that are gone at the update."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import UPDATE, alternating, check_refuted, check_trial, check_untested, seen

from lossleuth.causes.gradient.gradient_wiped import CURE, judge
from lossleuth.types.evidence import Evidence


def handled(wiped: int, left: int | None = 50) -> dict[str, Any]:
    return {"handling": {"factor": 1.0, "left": left, "wiped": wiped, "others": []}}


@pytest.mark.parametrize(("wiped", "told"), [(50, "100%"), (1, "2%")])
def test_wiped_gradients_are_suspected_until_kept(wiped: int, told: str) -> None:
    fault = seen(**handled(wiped))
    check_trial(judge, fault, [CURE], UPDATE)
    assert told in judge(fault).because


@pytest.mark.parametrize("left", [50, 0], ids=["all used", "none there"])
def test_gradients_that_are_used_are_sound(left: int) -> None:
    check_refuted(judge(seen(**handled(0, left))), "0% wiped")


def test_a_part_that_is_zeroed_now_and_then_is_not_blamed() -> None:
    check_refuted(judge(alternating(handled(50), handled(0))))


@pytest.mark.parametrize("evidence", [Evidence(), seen(handling=None), seen(**handled(0, None))])
def test_without_an_update_it_is_untested(evidence: Evidence) -> None:
    check_untested(judge(evidence), "no step with a backward pass")


def test_what_is_wiped_on_every_step_is_told() -> None:
    judgement = judge(alternating(handled(50), handled(10)))
    assert judgement.because.startswith("20%")
    assert judgement.wrongness is not None and judgement.wrongness.value == 0.2
