"""What is measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from pupil import SETTINGS, batch, model
from torch.nn import functional as F

from lossleuth.reference.distil.assembly import Assembly, assemble
from lossleuth.reference.distil.measure import (
    Component,
    comparison_table,
    component_table,
    components,
    nearness,
    true_loss,
)
from lossleuth.reference.distil.objective import Objective
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.teacher import FrozenTeacher
from lossleuth.reference.distil.vocabularies import Match
from lossleuth.reference.train.data import IGNORED, validation_batches
from lossleuth.reference.train.evaluate import Evaluation


@pytest.fixture
def assembly(settings: DistilSettings) -> Assembly:
    return assemble(settings)


def test_nearness_is_the_divergence_at_temperature_1_whatever_is_minimised(
    assembly: Assembly,
) -> None:
    found = nearness(assembly.student, assembly.teacher, assembly.prepared, 4, "float32")
    total, same, tokens = 0.0, 0, 0
    data = assembly.prepared
    for part in validation_batches(data.tokens, data.validation, 1):
        kept = part.targets_BT != IGNORED
        with torch.no_grad():
            ours = assembly.student(part.inputs_BT)[kept].double()
            theirs = assembly.teacher.module(part.inputs_BT)[kept].double()
        p, q = theirs.log_softmax(-1), ours.log_softmax(-1)
        total += F.kl_div(q, p, log_target=True, reduction="sum").item()
        same += int((ours.argmax(-1) == theirs.argmax(-1)).sum())
        tokens += int(kept.sum())
    assert found is not None
    # float32 logits of size 10 on one side and the other.
    assert abs(found.kl - total / tokens) < 64 * 10 * 2**-24
    assert found.agreement == same / tokens
    assert 0 < found.standard_error < found.kl


def test_a_student_that_is_its_teacher_is_as_near_as_can_be(assembly: Assembly) -> None:
    found = nearness(assembly.teacher.module, assembly.teacher, assembly.prepared, 4, "float32")
    assert found is not None and found.kl == 0 and found.agreement == 1


def test_the_true_loss_knows_neither_smoothing_nor_temperature(settings: DistilSettings) -> None:
    odd = replace(settings, label_smoothing=0.5, temperature=9.0)
    plain, smoothed = assemble(settings), assemble(odd)
    losses = {true_loss(a.student, a.prepared, 4, "float32").loss for a in (plain, smoothed)}
    assert len(losses) == 1


def pieces(**changes: float) -> tuple[Objective, torch.nn.Module]:
    settings = replace(SETTINGS, **changes)
    teacher = FrozenTeacher(model(seed=1), Match("exact", ""))
    return Objective(settings, settings.curriculum, teacher), model(seed=2, dropout=0.5)


def test_the_shares_are_those_of_the_gradient_and_sum_to_1() -> None:
    objective, student = pieces(distil_weight=3.0, data_weight=0.5)
    parts = components(objective, student, batch(), 0, 0)
    assert abs(sum(part.share for part in parts) - 1) < 1e-12
    student.eval()
    whole = objective(student, batch(), 0, 0, 44)
    gradient = torch.autograd.grad(whole.total, list(student.parameters()))
    alone = objective(student, batch(), 0, 0, 44, only="data")
    own = torch.autograd.grad(alone.total, list(student.parameters()))
    dots = [
        sum((a.double() * b.double()).sum().item() for a, b in zip(own, x, strict=True))
        for x in (gradient,)
    ]
    size = sum(g.double().square().sum().item() for g in gradient)
    share = {part.name: part.share for part in parts}["data"]
    # Two float32 gradients of the same thing.
    assert abs(share - dots[0] / size) < 1e-4


def test_a_part_that_pulls_the_other_way_has_a_negative_share() -> None:
    objective, student = pieces(distil_weight=10.0, data_weight=0.01)
    given = batch(masked=0)

    class Contrary(torch.nn.Module):
        """A teacher that thinks any token likelier than the target."""

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return -5 * F.one_hot(given.targets_BT, 20).float()

    objective.teacher = FrozenTeacher(Contrary(), Match("exact", ""))
    shares = {part.name: part.share for part in components(objective, student, given, 0, 0)}
    assert shares["data"] < 0 and shares["distil"] > 1


def test_looking_at_the_parts_changes_nothing() -> None:
    objective, student = pieces()
    student.train()
    state = torch.get_rng_state()
    components(objective, student, batch(), 0, 0)
    assert torch.equal(torch.get_rng_state(), state)
    assert student.training and all(p.grad is None for p in student.parameters())


def test_tables_show_every_figure() -> None:
    (_, row) = component_table([Component("data", 2.0, 0.25, -0.5)])
    assert row.split() == ["data", "2.0000", "0.250", "0.5000", "-50.0", "%"]
    rows = {"a": Evaluation(math.log(2), 0.1, 10, 5), "b": Evaluation(1.0, 0.1, 10, None)}
    lines = comparison_table(rows)
    assert lines[1].split() == ["a", "0.6931", "±", "0.1000", "2.00", "2.0000", "±", "0.2885"]
    assert lines[2].split()[-1] == "undefined"
