"""Where tensors lie in memory, and what is not read by its address."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from awkward_tensors import AWKWARD
from torch import Tensor, nn

from lossleuth.native.blocks import groups
from lossleuth.native.table import (
    BEFORE,
    COUNT,
    GRADIENT,
    PARAMETER,
    TYPE_OF,
    TYPES,
    MemoryTable,
    look_up,
)


def table_of(*parameters: Tensor) -> MemoryTable:
    return MemoryTable(parameters, groups([p.numel() for p in parameters], every=8))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_a_plain_tensor_is_read_by_its_address(dtype: torch.dtype) -> None:
    for tensor in (torch.ones(6, dtype=dtype), nn.Parameter(torch.ones(6, dtype=dtype))):
        assert look_up([tensor], [6]) == ([tensor.data_ptr()], [TYPES[dtype]])


@pytest.mark.parametrize("name", AWKWARD)
def test_what_an_address_does_not_describe_is_left_out(name: str) -> None:
    assert look_up([AWKWARD[name]()], [6]) is None


@pytest.mark.parametrize("name", AWKWARD)
def test_a_column_says_so_of_one_among_others(kernels: str, name: str) -> None:
    good = torch.ones(6)
    table = table_of(good, good)
    table.gradients.refresh([good, AWKWARD[name]()])
    assert table.gradients.unread == [1]
    assert table.fields[TYPE_OF[GRADIENT]].tolist() == [1, 0]


def test_a_column_leaves_a_negated_number_out(kernels: str) -> None:
    table = table_of(torch.ones(1))
    table.gradients.refresh([torch.tensor([1j]).conj().imag])
    assert table.gradients.unread == [0]


def test_a_negated_number_is_left_out() -> None:
    assert look_up([torch.tensor([1j]).conj().imag], [1]) is None


def test_a_column_tells_which_tensors_it_cannot_read(kernels: str) -> None:
    weights = [torch.ones(4), torch.ones(4), torch.ones(4)]
    table = table_of(*weights)
    good = torch.ones(4)
    table.gradients.refresh([None, torch.ones(8)[::2], good])
    assert table.gradients.unread == [1]
    assert table.fields[GRADIENT].tolist() == [0, 0, good.data_ptr()]
    assert table.fields[TYPE_OF[GRADIENT]].tolist() == [0, 0, 1]
    table.gradients.refresh([None, None, None])
    assert table.gradients.unread == [] and not table.fields[TYPE_OF[GRADIENT]].any()


def test_a_tensor_that_moved_is_found_again(kernels: str) -> None:
    weights = [nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))]
    table = table_of(*weights)
    for _ in range(2):
        table.parameters.refresh(weights)
        assert table.fields[PARAMETER].tolist() == [w.data_ptr() for w in weights]
    held = weights[1].data
    weights[1].data = torch.zeros(4)
    table.parameters.refresh(weights)
    assert table.fields[PARAMETER, 1] == weights[1].data_ptr() != held.data_ptr()
    weights[0], weights[1] = weights[1], weights[0]
    table.parameters.refresh(weights)
    assert table.fields[PARAMETER].tolist() == [w.data_ptr() for w in weights]


def test_storage_freed_under_a_known_tensor_is_noticed(kernels: str) -> None:
    weight = torch.ones(6)[2:]
    table = table_of(weight)
    table.parameters.refresh([weight])
    weight.untyped_storage().resize_(0)
    table.parameters.refresh([weight])
    assert table.parameters.unread == [0] and table.fields[TYPE_OF[PARAMETER], 0] == 0


def test_a_parameter_of_another_type_does_not_get_the_old_copy(kernels: str) -> None:
    weight = nn.Parameter(torch.ones(4, dtype=torch.float16))
    table = table_of(weight)
    weight.data = torch.ones(4, dtype=torch.float64)
    table.parameters.refresh([weight])
    assert table.parameters.unread == [0]


def test_copies_have_room_and_do_not_overlap() -> None:
    weights = [torch.ones(n, dtype=d) for n, d in ((5, torch.float64), (0, torch.float32))]
    weights += [torch.ones(100_000), torch.ones(3, dtype=torch.bfloat16)]
    table = table_of(*weights)
    begins = table.fields[BEFORE]
    assert table.fields[COUNT].tolist() == [5, 0, 100_000, 3]
    assert np.diff(begins).tolist() == [64, 0, 4 * 7 * 2048]
    assert table.copy_of(3, torch.bfloat16, 3).data_ptr() == begins[3]


def test_rows_left_out_come_back() -> None:
    weights = [torch.ones(4), torch.ones(4)]
    table = table_of(*weights)
    table.parameters.refresh(weights)
    types = table.fields[TYPE_OF[PARAMETER]]
    with table.without({1}):
        assert types.tolist() == [1, 0]
    assert types.tolist() == [1, 1]
