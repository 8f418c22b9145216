"""A lesson in numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from lessons_given import (
    Compare,
    alone,
    by_hand,
    divergence,
    half_of_each,
    master,
    of_few_classes,
    reverse,
    squares,
    taught,
)
from steps import recorded_step, shifted_loss
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.distillation import Teaching
from lossleuth.probes.distillation.teaching import teaching
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window


def measured(window: Window) -> Teaching:
    found = teaching(window, find_roles(window))
    assert found is not None
    return found


def test_a_right_lesson() -> None:
    found = measured(taught())
    assert found.has_labels
    assert found.student_temperature == found.teacher_temperature == 2.0
    assert found.target_share == 0 and found.target_parameters == ()
    assert found.weight == pytest.approx(0.5 * 4) and found.label_weight == pytest.approx(0.5)
    assert found.weight_fit == pytest.approx(1)
    assert found.pull_at_goal == pytest.approx(0, abs=1e-12)
    assert found.dropout == pytest.approx(0, abs=1e-12)
    assert found.same_input == 1.0 and found.with_same_input is None
    assert found.knowledge is not None and found.knowledge.tokens == 24
    assert set(found.levels) == {"1", "2", "4", "8"}


@pytest.mark.parametrize(
    "compare", [divergence, by_hand, half_of_each, reverse, squares], ids=lambda c: c.__name__
)
def test_whatever_is_a_divergence_is_at_rest_at_its_goal(compare: Compare) -> None:
    assert measured(taught(compare)).pull_at_goal == pytest.approx(0, abs=1e-12)


def test_a_bias_belongs_to_the_scores() -> None:
    model, bias = master(), nn.Parameter(torch.randn(23))
    found = measured(taught(teacher=lambda tokens: model(tokens) + bias))
    assert found.pull_at_goal == pytest.approx(0, abs=1e-12)
    plain = measured(taught(teacher=model))
    assert found.knowledge is not None and plain.knowledge is not None
    assert found.knowledge.loss != pytest.approx(plain.knowledge.loss, abs=1e-3)


def probabilities_for_logarithms(student: Tensor, teacher: Tensor) -> Tensor:
    return F.kl_div(student.softmax(-1), teacher.softmax(-1), reduction="batchmean")


def truncated(student: Tensor, teacher: Tensor) -> Tensor:
    kept = teacher.softmax(-1).topk(4, -1)
    return -(kept.values * student.log_softmax(-1).gather(-1, kept.indices)).sum(-1).mean()


def one_sided(student: Tensor, teacher: Tensor) -> Tensor:
    return F.kl_div(student.log_softmax(-1), (teacher / 4).softmax(-1), reduction="batchmean")


@pytest.mark.parametrize(
    "compare",
    [probabilities_for_logarithms, truncated, one_sided],
    ids=lambda c: c.__name__,
)
def test_what_is_none_is_not(compare: Compare) -> None:
    found = measured(taught(compare))
    assert found.pull_at_goal is not None and found.pull_at_goal > 0.05


def test_temperatures_are_told_side_by_side() -> None:
    found = measured(taught(one_sided))
    assert (found.student_temperature, found.teacher_temperature) == (1.0, 4.0)


def test_a_target_mixed_with_labels_pulls_towards_them() -> None:
    def loss(model: Callable[[Tensor], Tensor], tokens: Tensor) -> Tensor:
        said = model(tokens[:, :-1])
        with torch.no_grad():
            told = KNOWN(tokens[:, :-1]).softmax(-1)
        hot = F.one_hot(tokens[:, 1:], said.shape[-1]).to(said.dtype)
        return -((0.5 * told + 0.5 * hot) * said.log_softmax(-1)).sum(-1).mean()

    found = measured(recorded_step(loss))
    assert found.pull_at_goal is not None and found.pull_at_goal > 0.1
    assert found.pull_to_labels == pytest.approx(1.0, abs=1e-6)


KNOWN = master()


def test_a_mean_over_classes_shows_in_the_weight() -> None:
    def compare(student: Tensor, teacher: Tensor) -> Tensor:
        said, told = student.log_softmax(-1), teacher.log_softmax(-1)
        return F.kl_div(said, told, reduction="none", log_target=True).mean()

    found = measured(taught(compare))
    assert found.weight == pytest.approx(0.5 / 23)


def test_a_weight_of_nothing_is_nothing() -> None:
    found = measured(taught(mix=lambda lesson, labels: 0.0 * lesson + labels))
    assert found.weight == 0 and found.pull_at_goal is None


def test_a_target_that_is_trained_along_is_seen() -> None:
    model = master()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = measured(taught(requires_grad=True, teacher=model))
    assert 0 < found.target_share < 1 and found.target_parameters
    assert found.target_whole
    alone_ = measured(taught(mix=alone, requires_grad=True, teacher=model))
    assert alone_.target_share > found.target_share
    for parameter in model.tokens.parameters():
        parameter.requires_grad_(False)
    assert not measured(taught(requires_grad=True, teacher=model)).target_whole
    assert optimizer.param_groups


def test_a_teacher_with_gradients_that_no_optimizer_holds_stays_where_it_is() -> None:
    assert measured(taught(requires_grad=True)).target_share == 0


def test_dropout_in_the_teacher_is_seen() -> None:
    model = master()
    model.between = lambda hidden: F.dropout(hidden, 0.5)
    found = measured(taught(teacher=model))
    assert found.dropout is not None and found.dropout > 1e-3


def test_what_the_teacher_is_shown_is_compared() -> None:
    model = master()
    found = measured(taught(teacher=lambda tokens: model(tokens.flip(1))))
    assert found.same_input is not None and found.same_input < 0.5
    right = measured(taught())
    assert found.with_same_input is not None and right.knowledge is not None
    assert found.with_same_input.loss == pytest.approx(right.knowledge.loss)


def test_classes_that_do_not_match_are_said() -> None:
    found = measured(taught(of_few_classes))
    assert found.incomparable is not None and found.weight is None and found.knowledge is None


def test_probabilities_from_a_file_are_taken_for_what_they_are() -> None:
    stored = torch.randn(3, 8, 23, generator=torch.Generator().manual_seed(0)).softmax(-1)

    def compare(student: Tensor, teacher: Tensor) -> Tensor:
        return -(teacher * student.log_softmax(-1)).sum(-1).mean()

    found = measured(taught(compare, teacher=lambda tokens: stored))
    assert found.pull_at_goal == pytest.approx(0, abs=1e-12)


def test_without_a_teacher_there_is_nothing() -> None:
    window = recorded_step(shifted_loss)
    assert teaching(window, find_roles(window)) is None
