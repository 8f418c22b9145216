"""Whether parameters stay as they are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.observe.steps.updates.unchanged import Resting, bits

KINDS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn)


class Strange(torch.Tensor):
    """A tensor of a kind that is not torch's."""


def optimizer_of(*parameters: torch.Tensor) -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.nn.Parameter(p, requires_grad=False) for p in parameters], lr=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_one_bit_of_one_element_is_noticed(kind: torch.dtype) -> None:
    optimizer = optimizer_of(torch.ones(3, 4).to(kind), torch.full((5,), torch.nan))
    resting = Resting([optimizer])
    assert resting.moved() == (0, 2)
    weight = optimizer.param_groups[0]["params"][0]
    whole = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[weight.element_size()]
    weight.data.view(whole)[2, 3] ^= 1
    assert resting.moved() == (1, 2)


@given(st.integers(1, 50), st.integers(1, 50))
def test_the_sum_does_not_depend_on_the_order(rows: int, columns: int) -> None:
    tensor = torch.randn(rows, columns)
    assert bits(tensor) == bits(tensor.T) == bits(tensor.flip(0))


def test_what_has_no_plain_memory_or_is_gone_does_not_count() -> None:
    optimizer = optimizer_of(torch.ones(2), torch.ones(2, device="meta"))
    other = torch.ones(2).as_subclass(Strange)
    optimizer.add_param_group({"params": [torch.nn.Parameter(other, requires_grad=False)]})
    resting = Resting([optimizer])
    assert resting.moved() == (0, 1)
    del optimizer
    assert resting.moved() == (0, 0)
