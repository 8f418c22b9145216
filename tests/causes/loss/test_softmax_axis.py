"""Softmaxes over the wrong axis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from evidence import LOSS, alternating, check_proven, check_refuted, check_untested, seen

from lossleuth.causes.loss.softmax_axis import CAUSE, judge
from lossleuth.findings.data import Alignment
from lossleuth.findings.model import Leaks, Softmaxes
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where

SOUND = Softmaxes(None, classes_in_place=1.0, place="train.py:18", crossed=())
CROSSED = replace(SOUND, crossed=(("model.py", 31),))
LEAK = Leaks(0.3, None, None, None, floor=1e-12)
NEXT = Alignment(1, {1: 1.0}, supervised=512, targets=512)


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        ({"picked_elsewhere": True}, LOSS, "another axis"),
        ({"across_targets": "train.py:18", "targets_in_place": 0.03}, LOSS, "3% of them"),
        ({"classes_in_place": 0.125}, LOSS, "12.5%"),
        ({"crossed": (("model.py", 31),)}, Where("model.py", 31), "summed over"),
    ],
)
def test_each_way_to_the_wrong_axis_is_proven_where_it_is(
    given: Any, where: Where, words: str
) -> None:
    check_proven(judge(seen(replace(SOUND, **given), LEAK, NEXT)), where, words, "3 of 3")


@pytest.mark.parametrize("leak", [0.0, None], ids=["none", "unknown"])
def test_weights_used_along_another_axis_may_be_meant_where_nothing_leaks(
    leak: float | None,
) -> None:
    """A softmax over features, as linear attention may have it."""
    leaks = Leaks(leak, leak, None, None, floor=1e-12)
    check_refuted(judge(seen(CROSSED, leaks, NEXT)))


def test_weights_used_along_another_axis_are_proven_where_rows_leak() -> None:
    rows = Leaks(None, 0.3, None, None, floor=1e-12)
    check_proven(judge(seen(CROSSED, rows)), Where("model.py", 31))


@pytest.mark.parametrize("offset", [0, None], ids=["denoiser", "classifier"])
def test_a_model_that_may_see_its_whole_input_leaks_nothing(offset: int | None) -> None:
    check_refuted(judge(seen(CROSSED, LEAK, replace(NEXT, offset=offset))))


def test_weights_inside_the_model_count_also_where_the_loss_has_no_softmax() -> None:
    unknown = replace(CROSSED, classes_in_place=None, untested="no softmax of a loss was found")
    check_proven(CAUSE.judged(seen(unknown, LEAK, NEXT)), Where("model.py", 31))
    check_refuted(CAUSE.judged(seen(unknown)), "3 recorded steps")


@pytest.mark.parametrize("kept", [1.0, None], ids=["in place", "unknown"])
def test_softmaxes_over_the_axis_of_their_use_are_sound(kept: float | None) -> None:
    check_refuted(judge(seen(replace(SOUND, classes_in_place=kept))), "3 recorded steps")


def test_an_axis_that_is_wrong_only_now_and_then_is_not_blamed() -> None:
    evidence = alternating([replace(SOUND, picked_elsewhere=True)], [SOUND])
    check_refuted(judge(evidence), "1 recorded steps")


def test_without_a_softmax_it_is_untested() -> None:
    check_untested(CAUSE.judged(Evidence()), "no step with a softmax")
