"""Softmaxes over the wrong axis."""

from __future__ import annotations

from typing import Any

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.loss.softmax_axis import judge
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where


def looked(**given: Any) -> dict[str, Any]:
    sound = {"classes_in_place": 1.0, "crossed": [], "picked_elsewhere": False}
    return {"softmaxes": {**sound, "place": "train.py:18", "untested": None, **given}}


LEAK = {"leaks": {"future": 0.3, "floor": 1e-12}, "alignment": {"offset": 1}}


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        ({"picked_elsewhere": True}, LOSS, "another axis"),
        ({"classes_in_place": 0.125}, LOSS, "12.5%"),
        ({"crossed": [["model.py", 31]]}, Where("model.py", 31), "summed over"),
    ],
)
def test_each_way_to_the_wrong_axis_is_proven_where_it_is(
    given: Any, where: Where, words: str
) -> None:
    check_proven(judge(seen(**looked(**given), **LEAK)), where, words, "3 of 3")


@pytest.mark.parametrize("leak", [0.0, None], ids=["none", "unknown"])
def test_weights_used_along_another_axis_may_be_meant_where_nothing_leaks(
    leak: float | None,
) -> None:
    """A softmax over features, as linear attention may have it."""
    leaks = {"leaks": {"future": leak, "batch": leak, "floor": 1e-12}, "alignment": {"offset": 1}}
    check_refuted(judge(seen(**looked(crossed=[["model.py", 31]]), **leaks)))


@pytest.mark.parametrize("kept", [1.0, None], ids=["in place", "unknown"])
def test_softmaxes_over_the_axis_of_their_use_are_sound(kept: float | None) -> None:
    check_refuted(judge(seen(**looked(classes_in_place=kept))), "3 recorded steps")


def test_an_axis_that_is_wrong_only_now_and_then_is_not_blamed() -> None:
    evidence = alternating(looked(picked_elsewhere=True), looked())
    check_refuted(judge(evidence), "1 recorded steps")


def test_without_a_softmax_it_is_untested() -> None:
    check_untested(judge(Evidence()), "no step with a softmax")
