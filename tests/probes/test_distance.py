"""Sizes and distances."""

from __future__ import annotations

import math

import torch

from lossleuth.probes.distance import distance, norm


def test_absent_gradients_are_zero() -> None:
    assert norm([]) == norm([None]) == 0
    assert distance(None, None) == 0
    assert distance(torch.tensor([3.0, 4.0]), None) == 5


def test_sums_are_taken_in_float64() -> None:
    many = torch.full((1 << 20,), 1e-3, dtype=torch.float16)
    assert math.isclose(norm([many]), float(many[0].double()) * 1024, rel_tol=1e-12)
    assert distance(torch.tensor([1.0]), torch.tensor([1.0 + 2**-30], dtype=torch.float64)) > 0


def test_sparse_gradients_are_what_they_stand_for() -> None:
    sparse = torch.tensor([0.0, 3.0, 4.0]).to_sparse()
    assert norm([sparse]) == 5
    assert distance(sparse, torch.tensor([0.0, 3.0, 4.0])) == 0
