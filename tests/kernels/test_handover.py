"""Gradients that are handed out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lossleuth.kernels.handover import hand_over, refuse_second_derivative, scaled


def test_the_gradient_is_handed_out_once_and_then_made_again() -> None:
    first, saved = torch.ones(2, 3), torch.zeros(2, 3)
    ctx = SimpleNamespace(gradient=first, saved_tensors=(saved,), again=lambda x: x + 5)
    assert hand_over(ctx, torch.tensor(1.0)) is first and ctx.gradient is None
    assert hand_over(ctx, torch.tensor(2.0)).tolist() == [[10.0] * 3] * 2


def test_without_anything_saved_a_second_pass_is_refused() -> None:
    ctx = SimpleNamespace(gradient=None, saved_tensors=(), again=None)
    with pytest.raises(RuntimeError, match="its logits are gone, so pass inplace=False"):
        hand_over(ctx, torch.tensor(1.0))


def test_one_leaves_the_gradient_as_it_is() -> None:
    gradient = torch.ones(2, 3)
    assert scaled(gradient, torch.tensor(1.0)) is gradient and gradient._version == 0
    assert scaled(gradient, torch.tensor(0.5, dtype=torch.float64)).dtype is torch.float32
    assert gradient.tolist() == [[0.5] * 3] * 2


def test_rows_are_scaled_each_by_its_own() -> None:
    gradient = torch.ones(2, 2, 3, dtype=torch.bfloat16)
    scaled(gradient, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert gradient[..., 0].tolist() == [[1, 2], [3, 4]]


def test_a_graph_of_the_backward_pass_is_refused() -> None:
    with torch.no_grad():
        refuse_second_derivative()
    with pytest.raises(RuntimeError, match="found create_graph=True"):
        refuse_second_derivative()
