"""Faulty lessons are what their faults say."""

from __future__ import annotations

import math

import pytest
import torch
from small_hosts import differs, losses, planted_in, small
from torch.nn import functional as F

from lossleuth.labs.lab.programs.distillation_faults import Taught, Teacher, divergence, taught
from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted
from lossleuth.labs.lab.programs.training_parts import cross_entropy

pytestmark = pytest.mark.filterwarnings("ignore")
PLANTED = planted_in("distillation_faults.py")


@pytest.mark.parametrize(("host", "name"), PLANTED)
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


@pytest.mark.parametrize("name", sorted({name for _, name in PLANTED} - {"distilled"}))
def test_it_changes_what_a_taught_host_does(name: str) -> None:
    assert losses("plain", name) != losses("plain", "distilled")


def test_the_teacher_knows_the_text_and_an_untaught_one_does_not() -> None:
    settings = small("plain").settings
    tokens_BT, targets_BT = next(small("plain").batches(settings))
    known = cross_entropy(Teacher(settings)(tokens_BT)[:, 2:], targets_BT[:, 2:])
    noisy = cross_entropy(Teacher(settings, noise=4.0)(tokens_BT)[:, 2:], targets_BT[:, 2:])
    nothing = cross_entropy(Teacher(settings, knows=False)(tokens_BT), targets_BT)
    assert known < 2.0 < noisy
    assert nothing.item() == pytest.approx(math.log(settings.text.vocabulary), abs=0.3)


def test_the_divergence_is_at_rest_where_both_say_the_same() -> None:
    scores = torch.randn(2, 3, 7, requires_grad=True)
    (asked,) = torch.autograd.grad(divergence(scores, scores.detach().clone()), scores)
    assert asked.abs().max() < 1e-7
    other = torch.randn(2, 3, 7)
    said, told = (scores / 2).log_softmax(-1), (other / 2).softmax(-1)
    by_hand = 4 * (told * (told.log() - said)).sum(-1).mean()
    assert divergence(scores, other).item() == pytest.approx(by_hand.item(), rel=1e-5)


def test_a_teacher_that_is_trained_is_in_the_optimizer_and_no_other_is() -> None:
    for name, held in (("teacher_trained", True), ("distilled", False)):
        parts = planted(small("plain"), [Planted(fault_of(name), None)])
        model = parts.model(parts.settings)
        optimizer = parts.optimizer(model, parts.settings)
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        assert (count > len(list(model.parameters()))) is held


def test_dropout_makes_another_teacher_every_time() -> None:
    told: list[torch.Tensor] = []

    def compare(student_BTV: torch.Tensor, teacher_BTV: torch.Tensor) -> torch.Tensor:
        told.append(teacher_BTV)
        return F.mse_loss(student_BTV, teacher_BTV)

    for dropout, same in ((0.0, True), (0.5, False)):
        parts = taught(small("plain"), Taught(compare=compare, dropout=dropout))
        model = parts.model(parts.settings)
        tokens_BT, targets_BT = next(parts.batches(parts.settings))
        for _ in range(2):
            parts.loss(parts.forward(model, tokens_BT), targets_BT)
        assert torch.equal(told[-1], told[-2]) is same
