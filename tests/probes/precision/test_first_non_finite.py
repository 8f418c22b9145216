"""The first operation that is not finite."""

from __future__ import annotations

import inspect

import torch
from steps import SmallModel, recorded_step, shifted_loss
from torch import Tensor, nn

from lossleuth.probes.precision.first_non_finite import first_non_finite


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
