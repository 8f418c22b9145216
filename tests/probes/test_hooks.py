"""Hooks of the program."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
from steps import SmallModel, recorded_step
from torch import Tensor

from lossleuth.probes.hooks import Hooked, hooks


def scaled(gradient: Tensor) -> Tensor:
    return gradient * 1.001


def found_with(change: Callable[[SmallModel], None] | None) -> list[Hooked]:
    window = recorded_step(change=change)
    return hooks(window, window.backwards[0])


def on_a_parameter(model: SmallModel) -> None:
    model.up.weight.register_hook(scaled)


def on_what_flows(model: SmallModel) -> None:
    def between(h: Tensor) -> Tensor:
        h.register_hook(scaled)
        return h

    model.between = between


@pytest.mark.parametrize("plant", [on_a_parameter, on_what_flows])
def test_a_hook_is_found_at_its_line_with_what_it_does(
    plant: Callable[[SmallModel], None],
) -> None:
    (found,) = found_with(plant)
    line = inspect.getsourcelines(scaled)[1]
    assert found.places == (f"{__file__}:{line}",)
    assert found.error == pytest.approx(1e-3, rel=1e-2)
    assert found.floor is not None
    assert found.floor < 1e-5


def test_the_hook_nearest_to_the_loss_comes_first() -> None:
    def plant(model: SmallModel) -> None:
        on_what_flows(model)
        model.tokens.weight.register_hook(scaled)

    near, far = found_with(plant)
    assert near.error == pytest.approx(1e-3, rel=1e-2)
    assert far.tensor == "tokens.weight"
    assert far.error == pytest.approx(2e-3, rel=0.5)


def test_a_hook_that_only_looks_is_no_error_and_is_called_once_a_step() -> None:
    seen: list[float] = []

    def plant(model: SmallModel) -> None:
        model.up.weight.register_hook(lambda gradient: seen.append(float(gradient.sum())))

    (found,) = found_with(plant)
    assert found.error is not None
    assert found.floor is not None
    assert found.error < 10 * found.floor
    assert len(seen) == 2  # two steps were made


def test_a_program_without_hooks_has_none() -> None:
    assert found_with(None) == []
