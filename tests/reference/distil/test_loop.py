"""The loop of a distillation."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from pupil import SETTINGS, batch, empty_batch, model
from torch import nn

from lossleuth.reference.distil.loop import DistilStep, EmptyStep, distil
from lossleuth.reference.distil.objective import Objective
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.teacher import FrozenTeacher
from lossleuth.reference.distil.vocabularies import Match
from lossleuth.reference.train.data import Batch
from lossleuth.reference.train.loop import make_optimizer


def loop(
    settings: DistilSettings,
    load: Callable[[int], Batch],
    student: nn.Module | None = None,
    teacher: nn.Module | None = None,
) -> tuple[list[DistilStep | EmptyStep], nn.Module]:
    student = student or model(seed=2)
    frozen = FrozenTeacher(teacher or model(seed=1), Match("exact", ""))
    objective = Objective(settings, settings.curriculum, frozen)
    steps = list(distil(student, make_optimizer(student, settings), load, objective))
    return steps, student


def test_the_divergence_falls() -> None:
    teacher = model(seed=1)
    with torch.no_grad():
        teacher.embedding.weight.mul_(10)
    settings = replace(SETTINGS, steps=40, distil_weight=1.0, data_weight=0.0)
    steps, _ = loop(settings, lambda k: batch(seed=k % 3), teacher=teacher)
    values = [step.parts["distil"] for step in steps if isinstance(step, DistilStep)]
    assert values[-1] < 0.5 * values[0]


@pytest.mark.parametrize("accumulation", [1, 2, 3, 8])
def test_every_step_updates_whatever_the_accumulation(accumulation: int) -> None:
    asked: list[int] = []

    def load(k: int) -> Batch:
        asked.append(k)
        return batch(seed=k)

    student = model(seed=2)
    settings = replace(SETTINGS, steps=3, accumulation=accumulation)
    teacher = FrozenTeacher(model(seed=1), Match("exact", ""))
    optimizer = make_optimizer(student, settings)
    objective = Objective(settings, settings.curriculum, teacher)
    before = copy.deepcopy(student.state_dict())
    for made, step in enumerate(distil(student, optimizer, load, objective), 1):
        assert isinstance(step, DistilStep) and step.applied
        assert made == len(asked) // accumulation
        assert {int(state["step"]) for state in optimizer.state.values()} == {made}
        assert all(not torch.equal(before[n], p) for n, p in student.named_parameters())
        before = copy.deepcopy(student.state_dict())
    assert asked == list(range(3 * accumulation))


def test_accumulated_micro_batches_are_one_batch() -> None:
    parts = [batch(seed=k, masked=4 * k) for k in range(3)]
    whole = Batch(
        torch.cat([p.inputs_BT for p in parts]),
        torch.cat([p.targets_BT for p in parts]),
        torch.arange(9).numpy(),
    )
    (one,), _ = loop(replace(SETTINGS, steps=1), lambda k: whole)
    (other,), _ = loop(replace(SETTINGS, steps=1, accumulation=3), lambda k: parts[k])
    assert isinstance(one, DistilStep) and isinstance(other, DistilStep)
    assert abs(one.loss - other.loss) <= 64 * 2**-24 * one.loss
    assert abs(one.norm_before_clip - other.norm_before_clip) <= 1e-5 * one.norm_before_clip


def test_a_batch_without_a_supervised_token_is_left_out_and_counted() -> None:
    def load(k: int) -> Batch:
        return empty_batch() if k in (1, 4, 5) else batch(seed=k)

    student = model(seed=2)
    steps, _ = loop(replace(SETTINGS, steps=4, accumulation=2), load, student)
    assert [step.empty_batches for step in steps] == [1, 0, 2, 0]
    assert [isinstance(step, EmptyStep) for step in steps] == [False, False, True, False]
    alone, _ = loop(replace(SETTINGS, steps=1), lambda k: batch(seed=0))
    first = steps[0]
    assert isinstance(first, DistilStep) and isinstance(alone[0], DistilStep)
    # Neither 0 nor NaN comes from the empty half: the loss is that of the other.
    assert first.loss == alone[0].loss and first.tokens == alone[0].tokens


def test_an_empty_step_changes_no_weight() -> None:
    student = model(seed=2)
    before = copy.deepcopy(student.state_dict())
    steps, _ = loop(replace(SETTINGS, steps=2), lambda k: empty_batch(), student)
    assert len(steps) == 2
    assert all(torch.equal(before[n], p) for n, p in student.state_dict().items())


def test_an_infinite_divergence_is_not_applied_and_is_named() -> None:
    class Certain(nn.Module):
        """A teacher that thinks all but one token impossible."""

        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Parameter(torch.zeros(1))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            logits = torch.full((*tokens.shape, 20), -math.inf)
            logits[..., 3] = 0
            return logits

    student = model(seed=2)
    before = copy.deepcopy(student.state_dict())
    settings = replace(SETTINGS, steps=1, divergence="reverse_kl")
    (step,), _ = loop(settings, lambda k: batch(), student, Certain())
    assert isinstance(step, DistilStep) and not step.applied
    assert step.first_bad == "the distil part of the loss"
    assert all(torch.equal(before[n], p) for n, p in student.state_dict().items())


def test_weights_that_are_not_finite_are_named() -> None:
    student = model(seed=2)
    with torch.no_grad():
        student.final_norm.weight[0] = math.nan
    (step,), _ = loop(replace(SETTINGS, steps=1), lambda k: batch(), student)
    assert isinstance(step, DistilStep)
    assert step.first_bad == "parameter final_norm.weight" and not step.applied


def test_a_step_says_what_it_minimised() -> None:
    settings = replace(SETTINGS, steps=2, temperature=2.0, temperature_end=1.0)
    steps, _ = loop(settings, lambda k: batch())
    first, last = steps
    assert isinstance(first, DistilStep) and isinstance(last, DistilStep)
    assert (first.temperature, last.temperature) == (2.0, 1.0)
    expected = sum(first.weights[name] * value for name, value in first.parts.items())
    assert abs(first.loss - expected) <= 16 * 2**-24 * expected
