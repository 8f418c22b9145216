"""Which calls outside torch may be made again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from outside_kernels import in_numpy
from steps import InNumpy, SmallModel, recorded_step
from torch import Tensor

from lossleuth.tape.replay.link_outside import link_outside
from lossleuth.tape.tape import FunctionCall, Tape

KEPT = torch.zeros(1)


class Passing(torch.autograd.Function):
    """Leaves torch, and passes gradients on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() * 1.5)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class Counting(Passing):
    """What it gives depends on how often it was called."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Counting.calls += 1
        return torch.from_numpy(x.detach().numpy() * np.float32(1 + Counting.calls))


class Refusing(Passing):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Refusing.calls += 1
        if Refusing.calls > 2:
            raise ValueError("enough")
        return Passing.forward(ctx, x)


class Keeping(Passing):
    """Writes to memory that stays."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        KEPT.add_(1)
        return Passing.forward(ctx, x)


class Overwriting(Passing):
    """Gives back its input, changed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        values = x.detach().numpy()
        values *= 1.5
        ctx.mark_dirty(x)
        return x


def linked(function: Any) -> tuple[Tape, FunctionCall]:
    def plant(model: SmallModel) -> None:
        model.between = function

    window = recorded_step(change=plant)
    link_outside(window.tape)
    return window.tape, window.tape.functions[-1]


@pytest.mark.parametrize("function", [InNumpy, Passing], ids=lambda f: f.__name__)
def test_a_call_that_gives_what_it_gave_is_linked(function: Any) -> None:
    tape, call = linked(function.apply)
    assert call.opaque_because is None
    assert {again.call.name for again in tape.outside.values()} == {function.__name__}
    before = dict(tape.outside)
    link_outside(tape)
    assert tape.outside == before


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (Counting, "its results differ by"),
        (Refusing, "ValueError: enough"),
        (Keeping, "memory that the program keeps"),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_a_call_that_does_not_stays_opaque_with_the_reason(function: Any, reason: str) -> None:
    tape, call = linked(function.apply)
    assert not tape.outside
    assert call.opaque_because is not None and reason in call.opaque_because


def test_a_call_that_overwrites_its_input_is_not_linked() -> None:
    tape, _ = linked(lambda h: Overwriting.apply(h * 1.0))
    assert not tape.outside


def test_a_function_within_torch_is_none_of_them() -> None:
    class Plain(Passing):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.5

    tape, call = linked(Plain.apply)
    assert (tape.outside, call.opaque_because) == ({}, None)


def test_results_of_several_calls_are_told_apart() -> None:
    """Both are used by one operation, after both were called."""
    tanh = in_numpy()[0]
    tape, _ = linked(lambda h: torch.cat([tanh(h), tanh(h * 2)], -1).unflatten(-1, (2, -1)).sum(-2))
    one, other = tape.functions
    assert len(one.outputs) == len(other.outputs) == 1
    assert one.inputs != other.inputs
    assert len(tape.outside) == 2
    assert [again.call for again in tape.outside.values()] == [one, other]
    assert {*one.outputs.values()} < set(tape.leaves)
