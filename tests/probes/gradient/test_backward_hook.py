"""Hooks of the program."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from steps import SmallModel, recorded_step
from torch import Tensor, nn

from lossleuth.findings.gradient import BackwardHook
from lossleuth.probes.gradient.backward_hook import backward_hooks
from lossleuth.tape.capture.recorder import Recorder


def scaled(gradient: Tensor) -> Tensor:
    return gradient * 1.001


def found_with(change: Callable[[SmallModel], None] | None) -> list[BackwardHook]:
    window = recorded_step(change=change)
    return backward_hooks(window, window.backwards[0])


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


@pytest.mark.parametrize(("factor", "error"), [(3.0, 2.0), (1.0, 0.0)])
def test_a_hook_of_a_module_is_judged_by_what_it_hands_on(factor: float, error: float) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))

    def scale(module: nn.Module, inputs: tuple[Tensor, ...], outputs: object) -> tuple[Tensor, ...]:
        return tuple(factor * gradient for gradient in inputs)

    recorder = Recorder(0)
    # As the observer does it, before the module's own hooks are set up.
    model[1].register_forward_pre_hook(lambda m, _: recorder.enter_module("1"))
    model[1].register_forward_hook(lambda m, _, out: recorder.leave_module(out))
    model[1].register_full_backward_hook(scale)
    recorder.window.module_hooks["1"] = ("here:1",)
    recorder.start()
    try:
        loss = model(torch.randn(5, 4)).square().sum()
        run = recorder.begin_backward([loss], [None])
        loss.backward()
        recorder.end_backward(run)
    finally:
        recorder.stop()
    (found,) = backward_hooks(recorder.window, run)
    assert found.tensor == "module 1"
    assert found.places == ("here:1",)
    assert found.error == pytest.approx(error, abs=1e-6)
    assert found.untested is None
