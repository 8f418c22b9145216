"""What a replay cannot see through."""

from __future__ import annotations

from typing import Any

import torch
from steps import SmallModel, recorded_step
from torch import Tensor

from lossleuth.tape.replay.opacity import hidden_parameters, is_straight_through, opaque_calls


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
