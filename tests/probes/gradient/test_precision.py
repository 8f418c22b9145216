"""Precision, operation by operation."""

from __future__ import annotations

import inspect

import torch
from steps import SmallModel, recorded_step, shifted_loss
from torch import Tensor, nn

from lossleuth.probes.gradient.precision import first_non_finite, precision


def test_the_operation_that_was_done_in_few_digits_comes_first() -> None:
    def coarse(h: Tensor) -> Tensor:
        return (h.bfloat16() * h.bfloat16()).float()

    def plant(model: SmallModel) -> None:
        model.between = coarse

    window = recorded_step(change=plant)
    found = precision(window, window.backwards[0])
    first = found[0]
    lines, start = inspect.getsourcelines(coarse)
    assert first.file == __file__
    assert first.line is not None
    assert start <= first.line < start + len(lines)
    assert 1e-4 < first.error < 1e-2
    others = [o for o in found if o.dtype == "float32"]
    assert others
    assert max(o.error for o in others) < 1e-6


def overflow(h: Tensor) -> Tensor:
    return (h.half() * 1000.0 * 1000.0).float()


def test_the_first_operation_that_overflows_is_named() -> None:
    calls: list[int] = []

    def later(h: Tensor) -> Tensor:
        # Not in the first step, which would leave weights that are not finite.
        calls.append(1)
        return overflow(h) if len(calls) > 1 else h

    def plant(model: SmallModel) -> None:
        model.between = later

    window = recorded_step(change=plant)
    found = first_non_finite(window, window.backwards[0])
    assert found is not None
    assert found.file == __file__
    assert found.line == inspect.getsourcelines(overflow)[1] + 1
    assert (found.name, found.what) == ("mul", "inf")
    assert found.largest_input > 1000


def test_a_logarithm_of_something_negative_is_named() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        return (-shifted_loss(model, tokens)).log()

    window = recorded_step(loss)
    found = first_non_finite(window, window.backwards[0])
    assert found is not None
    assert (found.name, found.what) == ("log", "nan")


def test_masks_of_minus_infinity_and_finite_losses_are_no_finding() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        masked = torch.zeros(3).masked_fill(torch.tensor([True, False, False]), float("-inf"))
        return shifted_loss(model, tokens) + masked.softmax(0).sum() * 0

    window = recorded_step(loss)
    assert first_non_finite(window, window.backwards[0]) is None
