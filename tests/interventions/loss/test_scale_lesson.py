"""What a teacher asks for, made larger or smaller."""

from __future__ import annotations

import pytest
from changed_runs import TEACHER_LOGITS, VOCABULARY, Ran, entropy, sgd, trained, with_changes
from torch import Tensor
from torch.nn import functional as F

from lossleuth.interventions.loss.scale_lesson import ScaleLesson


def lesson(scores: Tensor) -> Tensor:
    said, known = scores.log_softmax(-1), TEACHER_LOGITS.softmax(-1)
    return F.kl_div(said, known, reduction="sum") / (scores.numel() / VOCABULARY)


def weighed(weight: float) -> Ran:
    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        return weight * lesson(scores) + 0.5 * entropy(scores, targets)

    return trained(make=sgd, loss_of=loss)


@pytest.mark.parametrize("factor", [0.0, 0.25, 4.0])
def test_it_equals_the_run_with_that_weight(factor: float) -> None:
    expected = weighed(0.5 * factor)
    assert weighed(0.5).distance(expected) > 1e-3
    found = with_changes(lambda: weighed(0.5), ScaleLesson(factor))
    assert found.distance(expected) < 1e-5


def test_a_factor_of_one_changes_nothing_but_rounding() -> None:
    found = with_changes(lambda: weighed(0.5), ScaleLesson(1.0))
    assert found.distance(weighed(0.5)) < 1e-6


def test_without_a_teacher_nothing_is_changed() -> None:
    plain = trained(make=sgd)
    assert with_changes(lambda: trained(make=sgd), ScaleLesson(0.0)).is_exactly(plain)
