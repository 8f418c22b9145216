"""What judges of distillation share."""

from __future__ import annotations

import pytest
from evidence import check_refuted, check_untested, seen
from lessons_seen import COMPARED, MADE, MIXED, UNTAUGHT, knowledge, lesson, taught

from lossleuth.causes import lessons
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Where


def test_without_a_teacher_every_judge_says_so() -> None:
    found = lessons.without_teacher(UNTAUGHT)
    assert found is not None
    check_refuted(found, "0 of 3")
    assert lessons.without_teacher(taught()) is None
    nothing = lessons.without_teacher(Evidence())
    assert nothing is not None
    check_untested(nothing, "no step")


def test_places_fall_back_on_what_is_known() -> None:
    whole = [lesson()]
    assert lessons.made_place(whole) == MADE
    assert lessons.compared_place(whole) == COMPARED
    assert lessons.mixed_place(whole) == MIXED
    bare = [lesson(made_at=None, student_at=None, mixed_at=None)]
    assert lessons.made_place(bare) == COMPARED == lessons.mixed_place(bare)
    assert lessons.made_place([lesson(made_at=None, teacher_at=None)]) is None
    assert lessons.mixed_place(bare) == Where("train.py", 12)


def test_the_reason_for_not_knowing_is_told() -> None:
    check_untested(lessons.no_knowledge(taught(untested="shapes differ")), "shapes differ")
    check_untested(lessons.no_knowledge(taught()), "not known")
    assert lessons.knowledge(taught(knowledge=None)) == []


def test_guessing_is_by_frequency() -> None:
    assert lessons.guess(taught()) == 4.0
    assert lessons.guess(seen(floors={"unigram": 3.0})) == 3.0
    assert lessons.guess(Evidence()) is None


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
def test_knowledge_elsewhere_has_to_be_clear(given: dict[str, object], found: str | None) -> None:
    assert lessons.knows_otherwise(knowledge(**given), 4.0) == found  # type: ignore[arg-type]  # numbers


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
def test_room_for_the_square(given: dict[str, object], lacks: bool) -> None:
    assert lessons.lacks_square(lesson(**given)) is lacks


@pytest.mark.parametrize(
    ("weight", "divided"), [(0.5 / 64, True), (2.0 / 64, False), (0.5, False), (1e-6, False)]
)
def test_a_division_by_the_classes(weight: float, divided: bool) -> None:
    assert lessons.is_divided_by_classes(lesson(weight=weight, label_weight=0.5)) is divided
    assert not lessons.is_divided_by_classes(lesson(weight=weight, weight_fit=0.5))
