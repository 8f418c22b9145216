"""Each hand-written backward belongs to its forward; the attention's faults are in its forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.labs.cases.hand_written_layers import (
    Attention,
    block,
    block_backward,
    linear,
    linear_backward,
    norm,
    norm_backward,
)
from lossleuth.labs.cases.hand_written_stack import new_block
from lossleuth.labs.cases.repaired_stack import BatchedAttention

B, T, C, H = 2, 5, 8, 2


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_norm_is_torchs_and_its_backward_belongs_to_it() -> None:
    x, gain, bias, given = rand(B, T, C), rand(C), rand(C), rand(B, T, C)
    out = norm(x, gain, bias)
    torch.testing.assert_close(out, F.layer_norm(x, (C,), gain, bias))
    wanted = torch.autograd.grad(out, [x, gain, bias], given)
    of_x, others = norm_backward(x, gain, given)
    torch.testing.assert_close((of_x, *others), wanted)


def test_linear_is_torchs_and_its_backward_belongs_to_it() -> None:
    x, weight, bias, given = rand(B, T, C), rand(3, C), rand(3), rand(B, T, 3)
    out = linear(x, weight, bias)
    torch.testing.assert_close(out, F.linear(x, weight, bias))
    wanted = torch.autograd.grad(out, [x, weight, bias], given)
    of_x, others = linear_backward(x, weight, given)
    torch.testing.assert_close((of_x, *others), wanted)


@pytest.mark.parametrize("kind", [Attention, BatchedAttention])
@pytest.mark.parametrize("masked", [False, True])
def test_the_block_s_backward_belongs_to_its_forward(kind: type[Attention], masked: bool) -> None:
    torch.manual_seed(0)
    mask = torch.ones(T, T, dtype=torch.bool).triu(1) if masked else None
    attention = kind(H, mask)
    fields = [(10 * tensor).double().requires_grad_() for tensor in new_block(C)]
    weights = new_block(C)._make(fields)
    x, given = rand(B, T, C), rand(B, T, C)
    wanted = torch.autograd.grad(block(x, weights, attention), [x, *weights], given)
    with torch.no_grad():
        of_x, others = block_backward(x, weights, attention, given)
    torch.testing.assert_close((of_x, *others), wanted)


def test_only_row_0_head_0_is_looked_at() -> None:
    qkv = rand(B, T, 3 * C)
    changed = qkv.detach().clone()
    keys_and_values = changed.view(B, T, 3, H, -1)[:, :, 1:]
    keys_and_values[1] = 7.0
    keys_and_values[0, :, :, 1] = 7.0
    attention = Attention(H)
    torch.testing.assert_close(attention.forward(changed), attention.forward(qkv))
    batched = BatchedAttention(H)
    assert not torch.allclose(batched.forward(changed), batched.forward(qkv))
