"""Sizes and distances."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lossleuth.tape.replay.distance import PIECE, Compared, compared, distance, norm


def test_absent_gradients_are_zero() -> None:
    assert norm([]) == norm([None]) == 0
    assert distance(None, None) == 0
    assert distance(torch.tensor([3.0, 4.0]), None) == 5


def test_sums_are_taken_in_float64() -> None:
    many = torch.full((1 << 20,), 1e-3, dtype=torch.float16)
    assert math.isclose(norm([many]), float(many[0].double()) * 1024, rel_tol=1e-12)
    assert distance(torch.tensor([1.0]), torch.tensor([1.0 + 2**-30], dtype=torch.float64)) > 0


def test_a_large_difference_is_summed_in_pieces() -> None:
    one = torch.randn(3, PIECE + 7)
    other = torch.randn(PIECE + 7, 3, dtype=torch.float64).T
    expected = float((one.double() - other).norm())
    assert math.isclose(distance(one, other), expected, rel_tol=1e-12)
    with pytest.raises(RuntimeError):
        distance(one, other[:, :-1])


def test_sparse_gradients_are_what_they_stand_for() -> None:
    sparse = torch.tensor([0.0, 3.0, 4.0]).to_sparse()
    assert norm([sparse]) == 5
    assert distance(sparse, torch.tensor([0.0, 3.0, 4.0])) == 0


SOME = torch.randn(3, PIECE + 7)
GRADIENTS = (SOME, SOME.double() + 1e-6, SOME.half(), torch.ones_like(SOME).to_sparse(), None)


@pytest.mark.parametrize("used", GRADIENTS)
@pytest.mark.parametrize("true", GRADIENTS)
@pytest.mark.parametrize("noisy", [SOME, None])
def test_one_pass_gives_what_many_would(
    used: Tensor | None, true: Tensor | None, noisy: Tensor | None
) -> None:
    alone = Compared(norm([used]), norm([true]), distance(used, true), distance(noisy, true))
    for found, expected in zip(compared(used, true, noisy), alone, strict=True):
        assert math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-15)
