"""What is minimised."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pupil import SETTINGS, batch, model
from torch import nn

from lossleuth.reference.distil.curriculum import Curriculum, Ramp
from lossleuth.reference.distil.losses import (
    cross_entropy,
    forward_kl,
    jensen_shannon,
    reverse_kl,
    top_k_kl,
)
from lossleuth.reference.distil.objective import Objective, make_projectors
from lossleuth.reference.distil.outputs import look
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.teacher import FrozenTeacher
from lossleuth.reference.distil.vocabularies import Match

TOKENS = 44
EVERYTHING = replace(SETTINGS, hidden_weight=0.3, attention_weight=0.2, contrastive_weight=0.1)
CLOSE = 64 * 2**-24


def objective(settings: DistilSettings) -> tuple[Objective, nn.Module]:
    teacher = FrozenTeacher(model(seed=1, layers=4, heads=4, width=32), Match("exact", ""))
    student = model(seed=2)
    made = Objective(settings, settings.curriculum, teacher)
    wanted = {"hidden": made.hidden, "attention": made.attention}
    tokens = batch().inputs_BT
    made.projectors = make_projectors(
        settings.curriculum.parts,
        look(student, tokens, **wanted),
        look(teacher.module, tokens, **wanted),
    )
    return made, student


@pytest.mark.parametrize("divergence", ["forward_kl", "reverse_kl", "jensen_shannon", "top_k"])
def test_the_divergence_is_the_one_that_was_asked_for(divergence: str) -> None:
    settings = replace(SETTINGS, temperature=3.0, temperature_end=2.0, label_smoothing=0.1)
    if divergence == "top_k":
        settings = replace(settings, top_k=4)
    else:
        settings = replace(settings, divergence=divergence)
    made, student = objective(settings)
    given = batch()
    found = made(student, given, 0, 7, TOKENS)
    ours, theirs = student(given.inputs_BT), made.teacher.module(given.inputs_BT)
    arguments = ours, theirs, given.targets_BT
    expected = {
        "forward_kl": lambda: forward_kl(*arguments, temperature=2.0),
        "reverse_kl": lambda: reverse_kl(*arguments, temperature=2.0),
        "jensen_shannon": lambda: jensen_shannon(*arguments, temperature=2.0),
        "top_k": lambda: top_k_kl(*arguments, k=4, temperature=2.0),
    }[divergence]().item()
    assert abs(found.parts["distil"] - expected) <= CLOSE * expected
    smoothed = cross_entropy(ours, given.targets_BT, smoothing=0.1).item()
    assert abs(found.parts["data"] - smoothed) <= CLOSE * smoothed
    assert abs(found.total.item() - (0.9 * expected + 0.1 * smoothed)) <= CLOSE * smoothed


def test_the_total_is_the_weighted_sum_of_all_parts() -> None:
    made, student = objective(EVERYTHING)
    found = made(student, batch(), 0, 0, TOKENS)
    assert list(found.parts) == ["distil", "data", "hidden", "attention", "contrastive"]
    weights = made.curriculum.weights(0)
    expected = sum(weights[name] * value for name, value in found.parts.items())
    assert abs(found.total.item() - expected) <= CLOSE * expected
    alone = [made(student, batch(), 0, 0, TOKENS, only=name).total.item() for name in weights]
    assert abs(sum(alone) - expected) <= CLOSE * expected


def test_the_projectors_are_trained_and_the_teacher_is_not() -> None:
    made, student = objective(EVERYTHING)
    made(student, batch(), 0, 0, TOKENS).total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert all(p.grad is not None and p.grad.ne(0).any() for p in made.projectors.parameters())
    assert all(p.grad is None for p in made.teacher.module.parameters())
    assert all(p.grad is not None for p in student.parameters())


def test_only_parts_that_look_inside_have_projectors() -> None:
    made, _ = objective(EVERYTHING)
    assert set(made.projectors) == {"hidden", "attention", "contrastive"}
    assert not objective(SETTINGS)[0].projectors


def test_bfloat16_products_leave_tied_weights_and_their_gradient_in_float32() -> None:
    made, student = objective(replace(SETTINGS, precision="bfloat16"))
    plain, _ = objective(SETTINGS)
    rounded = made(student, batch(), 0, 0, TOKENS)
    exact = plain(student, batch(), 0, 0, TOKENS)
    assert rounded.total.item() != exact.total.item()
    assert abs(rounded.total.item() - exact.total.item()) < 0.05 * exact.total.item()
    rounded.total.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    assert student.output.weight is student.embedding.weight
    for parameter in student.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32


def test_a_weight_of_0_takes_a_part_out_of_the_gradient_but_not_out_of_sight() -> None:
    settings = replace(SETTINGS, distil_weight=0.0, data_weight=1.0)
    made, student = objective(settings)
    found = made(student, batch(), 0, 0, TOKENS)
    assert found.parts["distil"] > 0
    assert abs(found.total.item() - found.parts["data"]) <= CLOSE * found.parts["data"]


def test_the_curriculum_moves_what_is_minimised() -> None:
    settings = replace(SETTINGS, distil_weight=1.0, distil_weight_end=0.0, data_weight_end=1.0)
    made, student = objective(settings)
    first, last = (made(student, batch(), 0, step, TOKENS) for step in (0, 7))
    assert first.parts == last.parts
    assert first.total.item() != last.total.item()
    assert isinstance(made.curriculum, Curriculum)
    assert made.curriculum.parts["distil"] == Ramp(1.0, 0.0, "linear")
