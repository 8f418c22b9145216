"""Who teaches whom."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lessons_given import (
    Compare,
    alone,
    by_hand,
    divergence,
    half_of_each,
    in_place,
    master,
    of_few_classes,
    of_few_rows,
    reverse,
    squares,
    taught,
)
from steps import VOCABULARY, recorded_step, shifted_loss
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.tape.roles import find_teacher
from lossleuth.tape.roles.find_teacher import Lesson, find_lessons
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Window


def lessons_in(window: Window) -> list[Lesson]:
    return find_lessons(window, find_roles(window))


@pytest.mark.parametrize(
    ("compare", "factor"),
    [
        (divergence, 0.5),
        (by_hand, 1.0),
        (in_place, 1 / 3),
        (half_of_each, 1.0),
        (reverse, 1.0),
        (of_few_rows, 0.5),
        (squares, 1.0),
        (of_few_classes, 1.0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_lesson_is_found_however_it_is_written(compare: Compare, factor: float) -> None:
    (lesson,) = lessons_in(taught(compare))
    assert lesson.classes == VOCABULARY
    assert lesson.student.requires_grad and not lesson.teacher.requires_grad
    assert lesson.has_labels
    assert lesson.student.factor == pytest.approx(factor)
    assert lesson.teacher.factor == pytest.approx(factor)


def test_places_are_those_of_the_comparison_and_of_the_sum() -> None:
    (lesson,) = lessons_in(taught())
    line = divergence.__code__.co_firstlineno + 2
    file = divergence.__code__.co_filename
    assert lesson.student.place == lesson.teacher.place == f"{file}:{line}"
    assert lesson.mixed_at is not None and lesson.mixed_at.startswith(file)


def test_who_has_labels_is_the_student_even_if_both_are_trained() -> None:
    (lesson,) = lessons_in(taught(requires_grad=True))
    assert lesson.teacher.requires_grad


def test_without_labels_either_may_be_the_teacher_if_both_are_trained() -> None:
    assert len(lessons_in(taught(mix=alone, requires_grad=True))) == 2
    (lesson,) = lessons_in(taught(mix=alone))
    assert not lesson.has_labels and lesson.mixed_at is None


def test_scores_from_a_file_teach_too() -> None:
    stored = torch.randn(3, 8, VOCABULARY, generator=torch.Generator().manual_seed(0))
    window = taught(teacher=lambda tokens: stored)
    (lesson,) = lessons_in(window)
    assert lesson.teacher.logits in window.tape.leaves


def test_a_hidden_layer_as_wide_as_the_vocabulary_is_no_head() -> None:
    model = master()
    wide = nn.Linear(VOCABULARY, VOCABULARY)

    def teach(tokens: Tensor) -> Tensor:
        return wide(model(tokens).relu())

    window = taught(teacher=teach)
    (lesson,) = lessons_in(window)
    made = [o for op in window.tape.operations if op.name in ("mm", "addmm") for o in op.outputs]
    assert (
        lesson.teacher.logits
        == [o for o in made if o is not None and window.tape.layouts[o].shape[-1] == VOCABULARY][1]
    )


def test_hidden_layers_as_wide_as_the_vocabulary_are_not_followed_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followed: list[int] = []
    flow = find_teacher._Flow

    def counted(tape: Tape, operations: list[Operation], *of: Any) -> object:
        followed.append(len(operations))
        return flow(tape, operations, *of)

    monkeypatch.setattr(find_teacher, "_Flow", counted)
    model = master()
    wide = nn.Linear(VOCABULARY, VOCABULARY)

    def teach(layers: int) -> Window:
        def teacher(tokens: Tensor) -> Tensor:
            h: Tensor = model(tokens)
            for _ in range(layers):
                h = wide(h.relu())
            return h

        return taught(teacher=teacher)

    counts = []
    for layers in (2, 20):
        assert len(lessons_in(teach(layers))) == 1
        counts.append(list(followed))
        followed.clear()
    # The student's scores and the teacher's, each with what comes after them.
    assert len(counts[0]) == 2 and counts[0] == counts[1]


def test_without_a_teacher_there_is_no_lesson() -> None:
    assert lessons_in(recorded_step(shifted_loss)) == []


def test_own_scores_that_are_held_fixed_are_no_teacher() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        said = model(tokens[:, :-1])
        weights = F.softmax(said.detach(), -1).amax(-1).flatten()
        each = F.cross_entropy(said.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        return (weights * each).mean()

    assert lessons_in(recorded_step(loss)) == []


def test_a_reference_model_that_is_only_asked_for_labels_is_no_teacher() -> None:
    reference = master()

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        wanted = tokens[:, 1:, None]
        said = model(tokens[:, :-1]).log_softmax(-1).gather(-1, wanted)
        with torch.no_grad():
            before = reference(tokens[:, :-1]).log_softmax(-1).gather(-1, wanted)
        return -F.logsigmoid(said - before).mean()

    assert lessons_in(recorded_step(loss)) == []


def test_peers_with_labels_of_their_own_do_not_teach_unless_held_fixed() -> None:
    peer = master()

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        one, other = model(tokens[:, :-1]), peer(tokens[:, :-1])
        labels = tokens[:, 1:].flatten()
        both = sum(F.cross_entropy(x.flatten(0, 1), labels) for x in (one, other))
        return both + divergence(one, other)

    assert lessons_in(recorded_step(loss)) == []
