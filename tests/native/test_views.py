"""Views of tensors that leave no mark."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from lossleuth.native.views import NUMPY_TYPES, flat_view


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=str)
def test_a_view_has_the_elements_of_its_tensor(dtype: torch.dtype) -> None:
    tensor = torch.arange(12).to(dtype).reshape(3, 4)[1:]
    assert np.array_equal(flat_view(tensor), np.arange(4, 12))
    assert flat_view(tensor[:0]).shape == (0,)


def test_a_view_follows_its_tensor_and_keeps_it_alive() -> None:
    tensor = torch.zeros(1000)
    view = flat_view(tensor)
    tensor += 1
    assert (view == 1).all()
    del tensor
    gc.collect()
    _ = [torch.full((1000,), 7.0) for _ in range(50)]
    assert (view == 1).all()


def test_the_storage_can_still_be_resized() -> None:
    tensor = torch.zeros(8)
    flat_view(tensor)
    tensor.untyped_storage().resize_(0)
    assert tensor.untyped_storage().nbytes() == 0
    marked = torch.zeros(8)
    marked.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        marked.untyped_storage().resize_(0)
