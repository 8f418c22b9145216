"""The formats, against torch's own knowledge of them."""

from __future__ import annotations

import math

import pytest
import torch

from lossleuth.number_formats import FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_as_torch_knows_it(name: str) -> None:
    known, found = torch.finfo(getattr(torch, name)), FORMATS[name]
    assert found.largest == known.max
    assert found.smallest_normal == known.tiny
    assert found.rounding == known.eps / 2
    dtype = getattr(torch, name)
    smallest = torch.tensor(found.smallest, dtype=torch.float64)
    assert smallest.to(dtype).double() == smallest
    assert (smallest * 0.499).to(dtype) == 0


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_an_exponential_is_infinite_just_beyond_its_limit(name: str) -> None:
    limit, dtype = FORMATS[name].largest_exponent, getattr(torch, name)
    assert torch.tensor(limit - 1e-3, dtype=torch.float64).exp().to(dtype).isfinite()
    assert torch.tensor(limit + 1e-2, dtype=torch.float64).exp().to(dtype).isinf()


def test_room_is_counted_in_doublings() -> None:
    half = FORMATS["float16"]
    assert math.floor(half.room(1.0)) == 15 and half.room(65504.0) == 0
    assert half.room(70000.0) < 0 and half.room(math.inf) == -math.inf
    assert math.isnan(half.room(0.0)) and math.isnan(half.room(math.nan))
