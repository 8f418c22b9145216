"""Who teaches whom."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from steps import VOCABULARY, SmallModel, recorded_step, shifted_loss
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.teacher import Teacher, teacher
from lossleuth.tape.roles import find_roles


def found_in(loss: Callable[[nn.Module, Tensor], Tensor]) -> Teacher | None:
    window = recorded_step(loss)
    return teacher(window, find_roles(window))


def divergence(student: Tensor, master: Tensor, heat: float = 2.0) -> Tensor:
    said, told = F.log_softmax(student / heat, -1), F.softmax(master / heat, -1)
    return F.kl_div(said.flatten(0, 1), told.flatten(0, 1), reduction="batchmean") * heat**2


def taught(model: nn.Module, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        told = MASTER(tokens[:, :-1])
    said = model(tokens[:, :-1])
    labels = F.cross_entropy(said.flatten(0, 1), tokens[:, 1:].flatten())
    return 0.5 * divergence(said, told) + 0.5 * labels


MASTER = SmallModel()


def test_a_teacher_is_found_with_what_it_teaches() -> None:
    found = found_in(taught)
    assert found is not None
    assert found.classes == VOCABULARY
    assert found.rows == 24
    assert found.computed
    assert found.divergence is not None and found.divergence > 1e-3
    assert found.entropy is not None and 0.5 * math.log(VOCABULARY) < found.entropy
    line = divergence.__code__.co_firstlineno + 1
    assert found.teacher_at == found.student_at == f"{__file__}:{line}"


def test_a_teacher_like_its_student_agrees() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        said = model(tokens[:, :-1])
        with torch.no_grad():
            told = model(tokens[:, :-1])
        return divergence(said, told) + shifted_loss(model, tokens)

    found = found_in(loss)
    assert found is not None
    assert found.divergence == pytest.approx(0, abs=1e-12)
    assert found.agreement == 1.0


def test_scores_from_a_file_teach_too() -> None:
    stored = torch.randn(3, 8, VOCABULARY, generator=torch.Generator().manual_seed(0))

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return divergence(model(tokens[:, :-1]), stored) + shifted_loss(model, tokens)

    found = found_in(loss)
    assert found is not None
    assert not found.computed


def test_without_a_teacher_there_is_none() -> None:
    assert found_in(shifted_loss) is None


def test_a_model_that_holds_its_own_scores_fixed_is_not_its_teacher() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        said = model(tokens[:, :-1])
        weights = F.softmax(said.detach(), -1).amax(-1).flatten()
        each = F.cross_entropy(said.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        return (weights * each).mean()

    assert found_in(loss) is None
