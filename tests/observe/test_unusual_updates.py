"""Updates that are made in unusual ways are recorded once, with their readings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loops import read, watching
from torch import nn

Parameters = list[nn.Parameter]


def weights(*sizes: int) -> Parameters:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(size)) for size in sizes]


def backward(parameters: Parameters) -> None:
    for parameter in parameters:
        parameter.grad = None
    sum((p * p).sum() for p in parameters).backward()


def test_parameters_that_join_take_no_readings_from_steps_before(tmp_path: Path) -> None:
    first, second = weights(3), weights(4, 5)
    with watching(tmp_path / "run") as observer:
        optimizer = torch.optim.AdamW(first)
        for step in range(6):
            if step == 3:
                optimizer.add_param_group({"params": second})
            backward([*first, *second])
            optimizer.step()
    assert observer.session.failures.sentence() is None
    ages = read(tmp_path / "run").matrix("age")
    assert ages[:, 0].tolist() == [1, 2, 3, 4, 5, 6]
    assert np.isnan(ages[:3, 1:]).all()
    assert ages[3:, 1:].tolist() == [[1, 1], [2, 2], [3, 3]]


class Own(torch.optim.AdamW):
    """An optimizer whose `step` calls that of its class."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class Around(torch.optim.Optimizer):
    """An optimizer that lets another one work, and then goes on from there."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


NESTED: dict[str, Callable[[Parameters], torch.optim.Optimizer]] = {
    "of a class of its own": Own,
    "around another": lambda parameters: Around(torch.optim.AdamW(parameters)),
}


@pytest.mark.parametrize("name", NESTED)
def test_a_step_inside_a_step_is_one_update(tmp_path: Path, name: str) -> None:
    parameters = weights(3, 4)
    optimizer = NESTED[name](parameters)
    with watching(tmp_path / "run") as observer:
        for _ in range(4):
            backward(parameters)
            optimizer.step()
    assert observer.session.failures.sentence() is None
    record = read(tmp_path / "run")
    assert record.series("updates").tolist() == [1, 1, 1, 1]
    assert record.matrix("age").tolist() == [[1, 1], [2, 2], [3, 3], [4, 4]]
    assert record.matrix("update_rms") == pytest.approx(1e-3, rel=0.1)


def test_an_optimizers_update_is_not_one_by_hand_too(tmp_path: Path) -> None:
    parameters = weights(3, 4)
    with watching(tmp_path / "run") as observer:
        for step in range(6):
            backward(parameters)
            if step < 3:
                with torch.no_grad():
                    for parameter in parameters:
                        assert parameter.grad is not None
                        parameter -= 0.1 * parameter.grad
            else:
                torch.optim.Adam(parameters).step()
    assert observer.session.failures.sentence() is None
    by = read(tmp_path / "run").values("updated_by")
    assert by == [["by hand"]] * 3 + [["Adam"]] * 3


@pytest.mark.parametrize("before", [0, 2])
def test_an_optimizer_that_has_lost_its_parameters(tmp_path: Path, before: int) -> None:
    parameters = weights(3, 4)
    optimizer = torch.optim.Adam(parameters)
    with watching(tmp_path / "run") as observer:
        for step in range(4):
            if step == before:
                optimizer.param_groups[0]["params"].clear()
            backward(parameters)
            optimizer.step()
    assert observer.session.failures.sentence() is None
    record = read(tmp_path / "run")
    assert len(record) == 4
    if before:
        ages = record.matrix("age")
        assert ages[:2].tolist() == [[1, 1], [2, 2]] and np.isnan(ages[2:]).all()


def test_a_gradient_of_zeros_without_memory(tmp_path: Path) -> None:
    parameters = weights(3, 4)
    optimizer = torch.optim.AdamW(parameters)
    with watching(tmp_path / "run") as observer:
        backward(parameters)
        parameters[0].grad = torch._efficientzerotensor(3)
        optimizer.step()
    assert observer.session.failures.sentence() is None
    assert read(tmp_path / "run").matrix("grad_zero_share").tolist() == [[1, 0]]


def test_losses_of_many_examples_at_once_are_no_loss_of_a_step(tmp_path: Path) -> None:
    (weight,) = weights(3)
    optimizer = torch.optim.Adam([weight])

    def loss(value: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
        return (value * example).sum()

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    with watching(tmp_path / "run") as observer:
        for _ in range(3):
            weight.grad = gradients(weight.detach(), torch.ones(8, 3)).mean(0)
            optimizer.step()
    assert observer.session.failures.sentence() is None
    record = read(tmp_path / "run")
    assert len(record) == 3 and "loss" not in record.scalar_names
