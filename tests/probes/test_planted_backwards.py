"""Faults in backward passes written by hand: one term, one bias, one layer, each by its line."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest
import torch
from steps import SmallModel, recorded_step
from torch import Tensor

from lossleuth.findings.gradient import CustomFunction, GradientTruth
from lossleuth.probes.gradient.backward_hook import backward_hooks
from lossleuth.probes.gradient.custom_function import custom_functions
from lossleuth.probes.gradient.gradient_truth import gradient_truth

# Terms of attention's gradient, each with its sign.
TERMS = ("query", "key", "value", "mean")
# Lines that a place may be off.
NEAR = 2


def attention(**signs: float) -> Any:
    """Causal attention, with the signs of some of its gradient's terms turned."""
    sign = dict.fromkeys(TERMS, 1.0) | signs

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            weights = scores.masked_fill(later, -math.inf).softmax(-1)
            ctx.save_for_backward(q, k, v, weights)
            return weights @ v

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            q, k, v, weights = ctx.saved_tensors
            to_v = sign["value"] * weights.transpose(-2, -1) @ gradient
            to_weights = gradient @ v.transpose(-2, -1)
            mean = sign["mean"] * (weights * to_weights).sum(-1, keepdim=True)
            scores = weights * (to_weights - mean) / math.sqrt(q.shape[-1])
            to_q = sign["query"] * scores @ k
            to_k = sign["key"] * scores.transpose(-2, -1) @ q
            return to_q, to_k, to_v

    return Attention


def linear(weight_factor: float = 1.0, bias_factor: float = 1.0) -> Any:
    """A layer whose gradients are off by factors."""

    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            ctx.save_for_backward(x, weight)
            return x @ weight.t() + bias

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            x, weight = ctx.saved_tensors
            rows = gradient.flatten(0, 1)
            to_weight = weight_factor * (rows.t() @ x.flatten(0, 1))
            to_bias = bias_factor * rows.sum(0)
            return gradient @ weight, to_weight, to_bias

    return Linear


def attending(cls: Any) -> Any:
    def plant(model: SmallModel) -> None:
        model.between = lambda h: h + cls.apply(*model.qkv(h).chunk(3, -1))

    return plant


def layered(cls: Any) -> Any:
    def plant(model: SmallModel) -> None:
        model.up.forward = lambda x: cls.apply(x, model.up.weight, model.up.bias)  # type: ignore[method-assign]  # planted

    return plant


def judged(plant: Any) -> tuple[CustomFunction, GradientTruth]:
    window = recorded_step(change=plant)
    (function,) = custom_functions(window)
    return function, gradient_truth(window, window.backwards[0])


def assert_wrong_at(found: CustomFunction, cls: Any, words: str) -> None:
    """Far above the floor, and at the line of the backward pass that has these words."""
    assert found.untested is None
    assert found.error is not None and found.floor is not None
    assert found.error > 100 * found.floor
    lines, first = inspect.getsourcelines(cls.backward)
    (planted,) = (first + i for i, line in enumerate(lines) if words in line)
    assert found.file == __file__ and found.line is not None
    assert abs(found.line - planted) <= NEAR


def wrong(truth: GradientTruth) -> set[str]:
    return {row.name for row in truth.parameters if row.error > 10 * row.floor + 1e-9}


@pytest.mark.parametrize("plant", [attending(attention()), layered(linear())])
def test_a_right_backward_is_true_to_its_floor(plant: Any) -> None:
    function, truth = judged(plant)
    assert function.error is not None and function.floor is not None
    assert function.error < 10 * function.floor + 1e-9
    assert truth.error < 10 * truth.floor and truth.error < 1e-5
    assert wrong(truth) == set()


@pytest.mark.parametrize(
    ("term", "words"),
    [
        ("query", 'sign["query"]'),
        ("key", 'sign["key"]'),
        ("value", 'sign["value"]'),
        # Named is a gradient that it spoils, not what lies between: three lines above it.
        ("mean", "to_q ="),
    ],
)
def test_a_sign_of_one_term_of_attention_is_found_at_its_line(term: str, words: str) -> None:
    cls = attention(**{term: -1.0})
    function, truth = judged(attending(cls))
    assert_wrong_at(function, cls, words)
    assert truth.error > 100 * truth.floor
    # What comes after it is none of its business.
    assert {"qkv.weight", "tokens.weight"} <= wrong(truth)
    assert not {"up.weight", "down.weight", "head.weight"} & wrong(truth)


def error_of(truth: GradientTruth, name: str) -> float:
    (row,) = (row for row in truth.parameters if row.name == name)
    return row.error


def test_a_bias_whose_gradient_is_zero_is_found_and_nothing_else() -> None:
    cls = linear(bias_factor=0.0)
    function, truth = judged(layered(cls))
    assert_wrong_at(function, cls, "bias_factor")
    assert wrong(truth) == {"up.bias"}
    # A gradient that is missing is as far from the truth as one that is doubled.
    _, doubled = judged(layered(linear(bias_factor=2.0)))
    assert error_of(truth, "up.bias") == pytest.approx(error_of(doubled, "up.bias"), rel=1e-4)


def test_a_layer_that_is_off_by_a_thousandth_is_found_and_nothing_else() -> None:
    cls = linear(weight_factor=1.001)
    function, truth = judged(layered(cls))
    assert_wrong_at(function, cls, "weight_factor")
    assert wrong(truth) == {"up.weight"}
    _, doubled = judged(layered(linear(weight_factor=2.0)))
    share = error_of(doubled, "up.weight")
    assert error_of(truth, "up.weight") == pytest.approx(share / 1000, rel=0.01)


def test_a_hook_that_triples_is_found_at_its_line() -> None:
    def tripled(gradient: Tensor) -> Tensor:
        return gradient * 3

    def plant(model: SmallModel) -> None:
        model.up.bias.register_hook(tripled)

    window = recorded_step(change=plant)
    (found,) = backward_hooks(window, window.backwards[0])
    assert found.error == pytest.approx(2, rel=1e-4)
    assert found.places == (f"{__file__}:{inspect.getsourcelines(tripled)[1]}",)
