"""A lesson as a function of the scores."""

from __future__ import annotations

import pytest
import torch
from lessons_given import (
    Compare,
    alone,
    by_hand,
    divergence,
    half_of_each,
    in_place,
    of_few_rows,
    reverse,
    squares,
    taught,
)
from steps import recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.distillation.teacher_loss_replay import TeacherLossReplay, find_lesson
from lossleuth.tape.replay.gradients import replayed_gradients
from lossleuth.tape.roles.roles import find_roles, recorded_value
from lossleuth.tape.window import Gradients, Window


def replay_of(window: Window) -> TeacherLossReplay:
    lesson = find_lesson(window, find_roles(window))
    assert lesson is not None
    return TeacherLossReplay(window, lesson)


def in_one(model: nn.Module, tokens: Tensor) -> Tensor:
    """Teacher and labels take up the same logarithms, position by position."""
    said = model(tokens[:, :-1]).log_softmax(-1)
    told = TOLD.log_softmax(-1)
    lesson = (told.exp() * (told - said)).sum(-1)
    labels = -said.gather(-1, tokens[:, 1:, None])[..., 0]
    return (0.3 * lesson + 0.7 * labels).mean()


TOLD = torch.randn(3, 8, 23, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "compare",
    [divergence, by_hand, in_place, half_of_each, reverse, of_few_rows, squares],
    ids=lambda compare: compare.__name__,
)
def test_the_gradient_is_that_of_the_comparison_alone(compare: Compare) -> None:
    window = taught(compare)
    lesson = find_lesson(window, find_roles(window))
    assert lesson is not None
    replay = TeacherLossReplay(window, lesson)
    logits, asked, rest = (found.reshape(3, 8, 23) for found in replay.demands())
    teacher = replay.scores(lesson.teacher) / (lesson.teacher.factor or 1)
    leaf = logits.clone().requires_grad_()
    if compare is not of_few_rows:
        (expected,) = torch.autograd.grad(0.5 * compare(leaf, teacher), leaf)
        assert torch.allclose(asked, expected, rtol=1e-9, atol=1e-15)
    assert float(rest.norm()) > 0


def test_what_labels_ask_for_is_told_from_what_the_teacher_asks_for() -> None:
    window = recorded_step(in_one)
    logits, asked, rest = (x.reshape(3, 8, 23) for x in replay_of(window).demands())
    said = logits.softmax(-1)
    expected = 0.3 * (said - TOLD.double().softmax(-1)) / 24
    assert torch.allclose(asked, expected, atol=1e-12)
    assert float(rest.norm()) == pytest.approx(
        0.7 / 24 * float((said - _hot(window)).norm()), rel=1e-9
    )


def _hot(window: Window) -> Tensor:
    roles = find_roles(window)
    assert roles is not None and roles.targets is not None
    targets = recorded_value(window.tape, roles.targets, roles.run.at)
    return F.one_hot(targets.reshape(3, 8), 23).double()


def test_other_scores_can_be_put_in() -> None:
    replay = replay_of(taught())
    student, teacher = replay.recorded()
    assert float(replay.gradient(student).norm()) > 1e-3
    assert float(replay.gradient(teacher).norm()) < 1e-15
    assert float(replay.gradient(student, student).norm()) < 1e-15


def changed(window: Window, factor: float) -> Gradients:
    return replay_of(window).retaught(lambda _, __, asked: factor * asked)


@pytest.mark.parametrize("loss", ["two terms", "in one"])
def test_a_lesson_can_be_given_again_otherwise(loss: str) -> None:
    window = taught() if loss == "two terms" else recorded_step(in_one)
    run = window.backwards[0]
    as_it_was = replayed_gradients(window.tape, run, float64=True)
    once, never = changed(window, 1.0), changed(window, 0.0)
    twice = changed(window, 2.0)
    for number, gradient in as_it_was.items():
        if gradient is None:
            continue
        found, without, double = once[number], never[number], twice[number]
        assert found is not None and without is not None and double is not None
        assert torch.allclose(found, gradient, rtol=1e-9, atol=1e-14)
        assert torch.allclose(double - found, found - without, rtol=1e-9, atol=1e-14)
        assert not torch.allclose(without, gradient, rtol=1e-3, atol=1e-9)


def test_the_student_is_the_one_who_is_drawn_to_the_other() -> None:
    window = taught(mix=alone, requires_grad=True)
    lesson = find_lesson(window, find_roles(window))
    assert lesson is not None
    # Only the student's parameters have names in these steps.
    behind = window.tape.needed_for([lesson.student.logits])
    assert "head.weight" in {window.names.get(i) for op in behind for i in op.inputs}
    behind = window.tape.needed_for([lesson.teacher.logits])
    assert "head.weight" not in {window.names.get(i) for op in behind for i in op.inputs}
