"""What the losses take, refuse, and give back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lossleuth.kernels.loss_interface import (
    options_of,
    readable,
    reduced,
    require_logits,
    require_reduction,
    require_rows,
    room_for,
    tensor_of,
)
from lossleuth.kernels.supervision import NothingSupervised


@pytest.mark.parametrize(
    ("dtype", "exact", "expected"),
    [
        (torch.float32, False, torch.float32),
        (torch.bfloat16, False, torch.float32),
        (torch.bfloat16, True, torch.float64),
        (torch.float64, False, torch.float64),
    ],
)
def test_the_type_of_a_loss(dtype: torch.dtype, exact: bool, expected: torch.dtype) -> None:
    logits, losses = torch.zeros(2, 3, 5, dtype=dtype), torch.ones(6, dtype=torch.float64)
    for reduction, shape in (("mean", ()), ("sum", ()), ("none", (2, 3))):
        found = reduced(losses, 6.0, 4, reduction, logits, exact)
        assert found.dtype is expected and found.shape == shape
    assert reduced(losses, 6.0, 4, "mean", logits, exact) == 1.5


def test_a_gradient_has_the_logits_shape_and_type() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        room = room_for(torch.zeros(4, 3, dtype=dtype).t())
        assert room.shape == (3, 4) and room.dtype is dtype and room.is_contiguous()


def test_only_rows_in_pieces_are_copied() -> None:
    rows = torch.zeros(3, 4)[:, :2]
    assert readable(rows) is rows and readable(rows.t()).is_contiguous()


def test_arrays_are_shared_where_they_can_be() -> None:
    array = np.zeros(3, np.float32)
    tensor_of(array)[0] = 1
    assert array[0] == 1
    assert tensor_of(array[::-1]).tolist() == [0, 0, 1]
    array.flags.writeable = False
    assert tensor_of(array).tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="found a read-only array"):
        tensor_of(array, written=True)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a temperature above 0"):
        options_of(float("inf"), 0.0, False)
    with pytest.raises(ValueError, match="expected label_smoothing from 0 to 1"):
        options_of(1.0, -0.1, False)
    with pytest.raises(ValueError, match="expected logits of shape"):
        require_logits(torch.zeros(3, 0))
    with pytest.raises(ValueError, match="expected logits of shape"):
        require_logits(torch.zeros(2, 2, 2, 2))
    with pytest.raises(ValueError, match="found 'max'"):
        require_reduction("max", 1, (1,))
    with pytest.raises(NothingSupervised):
        require_reduction("mean", 0, (1,))
    require_reduction("sum", 0, (1,))
    with pytest.raises(ValueError, match="rows lie in one piece"):
        require_rows(torch.zeros(3, 4).t())
