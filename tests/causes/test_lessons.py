"""What judges of distillation share."""

from __future__ import annotations

import math
from typing import Any

import pytest
from evidence import check_refuted, check_untested, seen
from lessons_seen import COMPARED, MADE, MIXED, UNTAUGHT, quality, taught, teaching

from lossleuth.causes import lessons
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where
from lossleuth.types.observed import Floors


def test_without_a_teacher_every_judge_says_so() -> None:
    found = lessons.without_teacher(UNTAUGHT)
    assert found is not None
    check_refuted(found, "0 of 3")
    assert lessons.without_teacher(taught()) is None
    nothing = lessons.without_teacher(Evidence())
    assert nothing is not None
    check_untested(nothing, "no step")
    failed = lessons.without_teacher(
        Evidence(recorded=[RecordedStep(1, errored={"teaching": "E"})])
    )
    assert failed is not None
    check_untested(failed, "failed to measure the teaching")


def test_places_fall_back_on_what_is_known() -> None:
    whole = [teaching()]
    assert lessons.teacher_place(whole) == MADE
    assert lessons.compared_place(whole) == COMPARED
    assert lessons.mixed_place(whole) == MIXED
    bare = [teaching(made_at=None, student_at=None, mixed_at=None)]
    assert lessons.teacher_place(bare) == COMPARED == lessons.mixed_place(bare)
    assert lessons.teacher_place([teaching(made_at=None, teacher_at=None)]) is None
    assert lessons.mixed_place(bare) == Where("train.py", 12)


def test_an_unknown_quality_has_a_reason() -> None:
    differ = taught(incomparable="shapes differ", knowledge=None)
    check_untested(lessons.unknown_quality(differ), "shapes differ")
    check_untested(lessons.unknown_quality(taught()), "not known")
    assert lessons.qualities(taught(knowledge=None)) == []
    assert lessons.qualities(taught(knowledge=quality(math.nan))) == []
    assert lessons.qualities(taught(2)) == [quality(), quality()]


def test_guessing_is_by_frequency() -> None:
    assert lessons.guessing_loss(taught()) == 4.0
    assert lessons.guessing_loss(seen(floors=Floors(unigram=3.0))) == 3.0
    assert lessons.guessing_loss(Evidence()) is None


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({"loss": 6.0, "offsets": {"0": 6.0, "1": 2.0}}, "offset"),
        ({"loss": 6.0, "offsets": {"0": 6.0, "1": 3.9}}, None),
        ({"loss": 6.0, "renamed": 2.0}, "renamed"),
        ({"loss": 6.0, "renamed": 3.9}, None),
        ({"loss": 6.0, "renamed": None, "offsets": {}}, None),
    ],
)
def test_a_better_match_has_to_be_clear(given: dict[str, Any], found: str | None) -> None:
    assert lessons.better_match(quality(**given), 4.0) == found


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        ({"weight": 0.5, "label_weight": 0.5}, True),
        ({"weight": 1.0, "label_weight": 1.0}, True),
        ({"weight": 0.125, "label_weight": 0.125, "micro_batches": 4}, True),
        ({"weight": 2.0, "label_weight": 0.5}, False),
        ({"weight": 0.5, "label_weight": 0.5, "teacher_temperature": 1.0}, False),
        ({"weight": 0.5, "label_weight": 0.5, "weight_fit": 0.9}, False),
        ({"weight": 0.5, "label_weight": None}, False),
    ],
)
def test_room_for_the_square(given: dict[str, Any], lacks: bool) -> None:
    found = lessons.weights(teaching(**given))
    assert (found is not None and lessons.lacks_square(found)) is lacks


def test_a_weight_of_0_lacks_no_square() -> None:
    assert not lessons.lacks_square(lessons.Weights(0.0, 1.0, temperature=4.0, classes=64))


@pytest.mark.parametrize(
    "given",
    [
        {"weight": None},
        {"weight": 0.0},
        {"weight_fit": 0.99},
        {"weight_fit": None},
        {"weight_fit": math.nan},
        {"label_weight": None},
        {"label_weight": math.nan},
        {"teacher_temperature": None},
    ],
)
def test_weights_that_were_not_measured_are_none(given: dict[str, Any]) -> None:
    assert lessons.weights(teaching(**given)) is None
    right = lessons.Weights(2.0, 0.5, temperature=2.0, classes=64, micro_batches=1)
    assert lessons.weights(teaching()) == right


@pytest.mark.parametrize(
    ("weight", "divided"), [(0.5 / 64, True), (2.0 / 64, False), (0.5, False), (1e-6, False)]
)
def test_a_division_by_the_classes(weight: float, divided: bool) -> None:
    found = lessons.weights(teaching(weight=weight, label_weight=0.5))
    assert found is not None
    assert lessons.is_divided_by_classes(found) is divided
