"""What a replay cannot see through."""

from __future__ import annotations

from typing import Any

import torch
from steps import SmallModel, recorded_step
from torch import Tensor

from lossleuth.tape.replay.opacity import hidden_parameters, is_straight_through, opaque_calls
from lossleuth.tape.tape import Operation


class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        # Made inside by torch itself: nothing strange about it.
        return x * torch.full_like(x, 2.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


class Outside(Plain):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() * 2) * 1.0


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.round(x * 8) / 8

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def hidden(function: Any) -> set[str]:
    def plant(model: SmallModel) -> None:
        model.between = function

    window = recorded_step(change=plant)
    run = window.backwards[0]
    roots = [root for root in run.roots if root is not None]
    found = hidden_parameters(window.tape, roots, run.at)
    through = any(is_straight_through(window.tape, call) for call in window.tape.functions)
    assert (bool(opaque_calls(window.tape)) or through) == bool(found)
    return {window.names[number] for number in found}


def test_a_function_within_torch_hides_nothing() -> None:
    assert hidden(Plain.apply) == set()


def test_a_function_outside_torch_hides_what_is_upstream_of_it() -> None:
    names = hidden(Outside.apply)
    assert "qkv.weight" in names
    assert "tokens.weight" in names
    assert not names & {"up.weight", "down.weight", "head.weight"}


def test_a_straight_through_function_is_not_blamed() -> None:
    assert "qkv.weight" in hidden(Rounded.apply)


def test_a_backward_that_passes_on_what_it_should_not_is_not_straight_through() -> None:
    class Doubled(Rounded):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

    assert hidden(Doubled.apply) == set()


def test_many_functions_in_a_row_are_walked_back_once() -> None:
    def in_a_row(h: Tensor) -> Tensor:
        for _ in range(12):
            h = Rounded.apply(h)  # type: ignore[no-untyped-call]  # untyped in torch
        return h

    def plant(model: SmallModel) -> None:
        model.between = in_a_row

    window = recorded_step(change=plant)
    tape, run = window.tape, window.backwards[0]
    walked: list[int] = []
    newly_needed = tape.newly_needed

    def counted(*asked: Any) -> list[Operation]:
        found = newly_needed(*asked)
        walked.extend(op.number for op in found)
        return found

    tape.newly_needed = counted  # type: ignore[method-assign]  # counted
    found = hidden_parameters(tape, [root for root in run.roots if root is not None], run.at)
    assert len(tape.functions) == 12
    assert len(walked) == len(set(walked)) > 24
    assert "qkv.weight" in {window.names[number] for number in found}
    # The first reason stays.
    assert len(set(found.values())) == 1
