"""Which positions count."""

from __future__ import annotations

import pytest
import torch

from lossleuth.kernels.supervision import (
    NothingSupervised,
    flat_mask_of,
    require_some,
    supervise,
)


def test_index_and_mask_both_leave_out(kernels: str) -> None:
    targets = torch.tensor([[1, -100, 3], [0, 2, -100]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    found = supervise(targets, mask, (2, 3, 5), -100)
    assert found.count == 3
    assert found.counts().tolist() == [True, False, False, True, True, False]
    assert supervise(targets, None, (2, 3, 5), -100).count == 4
    part = found.part(3, 6)
    assert part.count == 3 and part.counts().tolist() == [True, True, False]


def test_another_index_may_be_ignored(kernels: str) -> None:
    assert supervise(torch.tensor([0, 1, 0]), None, (3, 2), 0).count == 1


def test_the_first_bad_target_is_named(kernels: str) -> None:
    with pytest.raises(ValueError, match="found 9 at position 1"):
        supervise(torch.tensor([0, 9, -3]), None, (3, 5), -100)
    with pytest.raises(ValueError, match="found -3 at position 2"):
        supervise(torch.tensor([0, 9, -3]), torch.tensor([1, 0, 1]), (3, 5), -100)


def test_views_are_read_in_their_own_order(kernels: str) -> None:
    targets = torch.arange(6).view(2, 3).t()
    assert supervise(targets, None, (3, 2, 6), -100).targets.tolist() == [0, 3, 1, 4, 2, 5]


def test_no_mask_stays_none() -> None:
    assert flat_mask_of(None, [3]) is None


def test_a_mean_needs_a_position() -> None:
    require_some(1, (2, 3))
    with pytest.raises(NothingSupervised, match="found none in a batch of \\(2, 3\\)"):
        require_some(0, (2, 3))
