"""Recorded strides."""

from __future__ import annotations

import torch

from lossleuth.tape.replay.strides import laid_out
from lossleuth.tape.tape import Layout


def layout(*stride: int) -> Layout:
    return Layout(torch.float32, (2, 3), stride)


def test_values_are_laid_out_as_they_were() -> None:
    value = torch.arange(6.0).reshape(2, 3)
    found = laid_out(value, layout(1, 2))
    assert found.stride() == (1, 2)
    assert found.equal(value)


def test_what_lies_right_or_cannot_lie_so_is_left() -> None:
    value = torch.arange(6.0).reshape(2, 3)
    assert laid_out(value, layout(3, 1)) is value
    # Expanded: several places are one.
    assert laid_out(value, layout(0, 1)) is value
    assert laid_out(value, Layout(torch.float32, (3, 2), (1, 3))) is value
    assert laid_out(value, Layout(torch.float32, (2, 3), None)) is value
    sparse = torch.eye(2).to_sparse()
    assert laid_out(sparse, Layout(torch.float32, (2, 2), (1, 2))) is sparse


def test_gradients_flow_through() -> None:
    value = torch.ones(2, 3, requires_grad=True)
    laid_out(value, layout(1, 2)).square().sum().backward()
    assert value.grad is not None
    assert value.grad.equal(torch.full((2, 3), 2.0))
