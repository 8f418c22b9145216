"""A comparison that is right by construction."""

from __future__ import annotations

import pytest
from changed_runs import TEACHER_LOGITS, Ran, entropy, sgd, trained, with_changes
from torch import Tensor
from torch.nn import functional as F

from lossleuth.interventions.loss.teach_by_reference import TeachByReference


def taught(heat: float, weight: float, *, other: float | None = None) -> Ran:
    """Teacher and student softened by a temperature, or the student by another one."""

    def loss(scores: Tensor, targets: Tensor) -> Tensor:
        said = (scores / (other or heat)).log_softmax(-1).flatten(0, -2)
        known = (TEACHER_LOGITS / heat).softmax(-1).flatten(0, -2)
        lesson = F.kl_div(said, known, reduction="batchmean")
        return weight * lesson + 0.5 * entropy(scores, targets)

    return trained(make=sgd, loss_of=loss)


@pytest.mark.parametrize("heat", [1.0, 2.0, 4.0])
def test_it_equals_the_run_that_is_taught_so(heat: float) -> None:
    expected = taught(heat, 0.8 * heat**2)
    start = taught(2.0, 0.1, other=1.0)
    assert start.distance(expected) > 1e-3
    found = with_changes(lambda: taught(2.0, 0.1, other=1.0), TeachByReference(heat, 0.8))
    assert found.distance(expected) < 1e-5


def test_a_lesson_of_weight_0_is_given_all_the_same() -> None:
    found = with_changes(lambda: taught(2.0, 0.0), TeachByReference(2.0, 1.0))
    assert found.distance(taught(2.0, 4.0)) < 1e-5


def test_without_a_teacher_nothing_is_changed() -> None:
    plain = trained(make=sgd)
    assert with_changes(lambda: trained(make=sgd), TeachByReference()).is_exactly(plain)
