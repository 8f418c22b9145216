"""Custom functions differentiated through their forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from changed_runs import Net, Ran, WrongTanh, sgd, trained, with_changes
from torch import Tensor
from torch.autograd import Function

from lossleuth.interventions.gradient.differentiate_forward import DifferentiateForward
from lossleuth.torch_internals import APPLIED


class CutInside(WrongTanh):
    """Its forward detaches, which means nothing there."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        return WrongTanh.forward(ctx, x.detach().data)


class SetUpApart(WrongTanh):
    """In the newer style."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:  # type: ignore[override]  # as torch has it
        return torch.tanh(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(output)


class WithChoice(Function):
    """Of two results one is not differentiable."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        largest, sign = torch.tanh(x), x.sign()
        ctx.mark_non_differentiable(sign)
        ctx.save_for_backward(largest)
        return largest, sign

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Any) -> Tensor:
        return gradient * 0


class Outside(WrongTanh):
    """Its forward computes where torch does not look."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.tensor(x.tolist())
        ctx.save_for_backward(out)
        return out


def with_function(function: Any, chosen: Any = lambda made: made) -> Ran:
    def plant(net: Net) -> None:
        net.between = lambda x: chosen(function.apply(x))

    return trained(make=sgd, plant=plant)


@pytest.mark.parametrize("function", [WrongTanh, CutInside, SetUpApart], ids=lambda f: f.__name__)
def test_a_wrong_backward_is_not_asked(function: Any) -> None:
    right = trained(make=sgd)
    assert with_function(function).distance(right) > 1e-2
    cured = with_changes(
        lambda: with_function(function), DifferentiateForward(f"Other,{function.__name__}")
    )
    assert cured.distance(right) < 1e-5


def test_what_is_not_differentiable_stays_so() -> None:
    def run() -> Ran:
        return with_function(WithChoice, lambda made: made[0] + 0 * made[1])

    seen = with_changes(run, DifferentiateForward("WithChoice"))
    assert seen.distance(trained(make=sgd)) < 1e-5
    found: list[bool] = []
    with_changes(
        lambda: with_function(
            WithChoice, lambda made: (found.append(made[1].requires_grad), made[0])[1]
        ),
        DifferentiateForward("WithChoice"),
    )
    assert found and not any(found)


def test_other_functions_are_left_alone() -> None:
    plain = with_function(WrongTanh)
    assert with_changes(
        lambda: with_function(WrongTanh), DifferentiateForward("Tanh,Wrong")
    ).is_exactly(plain)


def test_what_computes_outside_torch_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Outside computes outside torch"):
        with_changes(lambda: with_function(Outside), DifferentiateForward("Outside"))


def test_torch_is_left_as_it_was() -> None:
    before = vars(Function)["apply"], APPLIED.apply
    with_changes(lambda: with_function(WrongTanh), DifferentiateForward("WrongTanh"))
    assert (vars(Function)["apply"], APPLIED.apply) == before
    assert "apply" not in vars(APPLIED)
