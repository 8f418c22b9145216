"""Custom functions: does the backward belong to the forward?"""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from steps import InNumpy, SmallModel, recorded_step
from torch import Tensor

from lossleuth.findings.gradient import CustomFunction
from lossleuth.probes.gradient import custom_function
from lossleuth.probes.gradient.custom_function import custom_functions
from lossleuth.tape.replay import one_pass


def swish(error: float) -> Any:
    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            s = torch.sigmoid(x)
            return gradient * (s + x * s * (1 - s)) * (1 + error)

    return Swish


class TwoInputs(torch.autograd.Function):
    """Takes something that is not a tensor first; forgets one gradient."""

    @staticmethod
    def forward(ctx: Any, scale: float, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.scale = scale
        return x * scale + y, y * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        return None, gradients[0] * ctx.scale, gradients[0]


def truths(function: Any) -> list[CustomFunction]:
    def plant(model: SmallModel) -> None:
        model.activation = function

    return custom_functions(recorded_step(change=plant))


@pytest.mark.parametrize("error", [0.0, 1e-3, -2.0])
def test_the_error_is_that_of_the_backward_alone(error: float) -> None:
    cls = swish(error)
    (found,) = truths(cls.apply)
    assert found.name == "Swish"
    assert found.untested is None
    assert found.error == pytest.approx(abs(error), abs=10 * found.floor)
    assert found.floor < 1e-6
    lines, first = inspect.getsourcelines(cls.backward)
    assert found.file == __file__
    assert found.line is not None
    assert first <= found.line < first + len(lines)


def test_a_gradient_that_was_forgotten_is_an_error() -> None:
    def apply(x: Tensor) -> Tensor:
        one, other = TwoInputs.apply(0.5, x, x.sin())
        return one + other

    (found,) = truths(apply)
    # y adds 1 to the first output and 2 to the second; the backward knows of the first only.
    assert found.error > 0.1


class InNumpyWrong(InNumpy):
    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (out,) = ctx.saved_tensors
        return gradient * (1 - out * out) * 1.5


class InNumpyNoisy(InNumpy):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = InNumpy.forward(ctx, x)
        noise = np.random.default_rng().standard_normal(tuple(x.shape)) * 10
        out.detach().numpy()[...] += noise.astype(np.float32)
        return out


def test_work_outside_torch_is_judged_by_its_values() -> None:
    (found,) = truths(InNumpy.apply)
    assert found.untested is None
    assert found.error <= found.floor < 0.01


def test_a_wrong_backward_of_work_outside_torch_is_found() -> None:
    (found,) = truths(InNumpyWrong.apply)
    assert found.untested is None
    assert found.error == pytest.approx(0.5, abs=0.05)
    assert found.error > 10 * found.floor


def test_values_that_do_not_repeat_are_untested_and_not_wrong() -> None:
    (found,) = truths(InNumpyNoisy.apply)
    assert math.isnan(found.error)
    assert found.untested is not None
    assert "opaque" in found.untested


def test_many_calls_are_judged_by_replaying_the_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    attempt = one_pass.Pass.attempt
    monkeypatch.setattr(
        one_pass.Pass, "attempt", lambda self, op: done.append(1) or attempt(self, op)
    )
    cls = swish(0.0)

    def repeated(times: int) -> Any:
        def activation(x: Tensor) -> Tensor:
            for _ in range(times):
                x = cls.apply(x)
            return x

        return activation

    counts = []
    for times in (5, 10, 20):
        found = truths(repeated(times))
        assert len(found) == times
        assert all(f.untested is None and f.error < 1e-6 for f in found)
        counts.append(len(done))
        done.clear()
    # Each call costs the same, however many there are.
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def test_calls_that_do_not_need_what_cannot_be_replayed_are_judged() -> None:
    def plant(model: SmallModel) -> None:
        cls = swish(0.0)
        model.activation = lambda x: cls.apply(x) + cls.apply(2 * x) + cls.apply(x + 1)

    window = recorded_step(change=plant)
    tape = window.tape
    assert len(tape.functions) == 3
    broken = tape.operations[tape.functions[1].first - 1]
    assert broken.name == "mul"
    tape.replace_operation(replace(broken, args=(*broken.args, *broken.args)))
    reasons = [f.untested for f in custom_functions(window)]
    assert len(reasons) == 3
    (reason,) = (reason for reason in reasons if reason is not None)
    assert "at most 2 argument" in reason


def test_calls_outside_torch_are_measured_kind_by_kind_until_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def plant(model: SmallModel) -> None:
        model.activation = lambda x: (
            InNumpy.apply(x) + InNumpy.apply(2 * x) + InNumpy.apply(x[:, :1])
        )

    tape = recorded_step(change=plant).tape
    # Two are of one shape, the last is of another.
    assert list(custom_function._unlike_first(tape, dict(enumerate(tape.functions)))) == [0, 2, 1]
    monkeypatch.setattr(custom_function, "MAX_SECONDS_OUTSIDE", -1.0)
    found = custom_functions(recorded_step(change=plant))
    assert ["want of time" in str(f.untested) for f in found] == [True] * 3
