"""Parameters that were written to."""

from __future__ import annotations

import torch

from lossleuth.tape.replay.rewritten_leaf import with_value


def test_the_value_is_the_new_one_to_the_last_bit_and_the_gradient_the_leafs() -> None:
    leaf = torch.full((3,), 1e8, requires_grad=True)
    value = torch.tensor([0.1, -7.3, 2e-20])
    made = with_value(leaf, value)
    assert torch.equal(made, value)
    (found,) = torch.autograd.grad((made * torch.tensor([1.0, 2.0, 3.0])).sum(), leaf)
    assert found.tolist() == [1.0, 2.0, 3.0]


def test_what_is_written_to_the_result_does_not_reach_the_value() -> None:
    value = torch.zeros(2)
    with_value(torch.zeros(2, requires_grad=True), value).mul_(0).add_(1)
    assert value.tolist() == [0.0, 0.0]
