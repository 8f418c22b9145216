"""Sums of rows, against exact ones and against each other."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lossleuth.native import library as native
from lossleuth.native.summation import METHODS, row_sums

UNIT = 2.0**-24  # half the distance of 1 to the next float32


def terms(rows: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(width)
    return (4 * torch.randn(rows, width, generator=generator)).exp()


def exact(x_NV: Tensor) -> Tensor:
    return torch.tensor([math.fsum(row) for row in x_NV.tolist()], dtype=torch.float64)


def allowed(method: str, width: int) -> float:
    """The bounds that are proven of each method for terms of one sign (Higham)."""
    deep = math.ceil(math.log2(max(width, 2))) + 8
    return {
        "naive": (width - 1) * UNIT,
        "pairwise": deep * UNIT,
        "kahan": 2 * UNIT + 3 * width * UNIT**2,
        "neumaier": 2 * UNIT + 3 * width * UNIT**2,
        "float64": width * 2.0**-53,
    }[method]


@pytest.mark.parametrize("width", [1, 2, 3, 8, 9, 34, 100, 1000, 1023, 1025])
@pytest.mark.parametrize("method", METHODS)
def test_a_sum_is_within_what_is_proven_of_its_method(method: str, width: int) -> None:
    x = terms(5, width)
    wrong = (row_sums(x, method) / exact(x) - 1).abs().max().item()
    assert wrong <= allowed(method, width) * (1 + 2.0**-20)


@pytest.mark.parametrize("method", METHODS)
@given(width=st.integers(1, 70), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_the_library_and_its_twin_agree_to_the_last_bit(method: str, width: int, seed: int) -> None:
    if native.load() is None:
        pytest.skip("no native library")
    x = torch.randn(3, width, generator=torch.Generator().manual_seed(seed)) * 10.0 ** (seed % 5)
    assert torch.equal(row_sums(x, method), METHODS[method](x).double())


def test_methods_differ_where_they_should() -> None:
    x = torch.full((1, 1 << 15), 0.1)
    truth = exact(x)
    lost = {m: (row_sums(x, m) / truth - 1).abs().item() for m in METHODS}
    assert lost["naive"] > 100 * lost["pairwise"] and lost["kahan"] <= 2 * UNIT
    # A term larger than the sum so far: Kahan's sum loses what Neumaier's keeps.
    steep = torch.tensor([[1.0, 1e10, 1.0, -1e10]])
    assert row_sums(steep, "kahan").item() == 0 and row_sums(steep, "neumaier").item() == 2


def test_a_sum_stays_in_its_own_type() -> None:
    x = torch.ones(1, 400).bfloat16()
    assert row_sums(x, "naive").item() == 256  # where adding 1 changes nothing any more
    assert row_sums(x, "float64").item() == 400


def test_columns_apart_from_each_other_are_read_rightly() -> None:
    x = terms(4, 6)
    assert torch.equal(row_sums(x.t(), "naive"), row_sums(x.t().contiguous(), "naive"))


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of naive, pairwise, .* found 'magic'"):
        row_sums(torch.ones(1, 2), "magic")
