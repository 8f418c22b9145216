"""The statistics of one tensor without the library, by numpy and by torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from slow_statistics import assert_same, reference

from lossleuth.native import fallback
from lossleuth.native.blocks import BLOCK
from lossleuth.native.fallback import flat, gradient_statistics, is_held, pick, update_statistics


@pytest.fixture(params=["numpy", "torch"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As on this machine's memory, or as on a device: the same formulas on torch tensors."""
    if request.param == "torch":
        monkeypatch.setattr(fallback, "look_up", lambda tensors, counts: None)
        monkeypatch.setattr(fallback, "flat_view", lambda row: row)
    return str(request.param)


@pytest.mark.parametrize("count", [0, 1, 50])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_numpy_and_torch_give_the_reference(module: str, count: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    before, g, first = (torch.randn(count).to(dtype) for _ in range(3))
    second = torch.rand(count).to(dtype)
    after = torch.where(torch.rand(count) < 0.5, before, before + 1)
    g[:1], after[1:2] = math.nan, math.inf
    kind = torch.Tensor if module == "torch" else np.ndarray
    assert isinstance(flat(after), kind)
    for m, v, threshold in (
        (first, second, 0.5),
        (first, None, math.nan),
        (None, second, math.nan),
    ):
        with np.errstate(all="ignore"):
            row = gradient_statistics(g) + update_statistics(
                flat(after),
                flat(before),
                gradient=flat(g),
                first=None if m is None else flat(m),
                second=None if v is None else flat(v),
                threshold=threshold,
                count=count,
            )
        assert_same(np.array([float(n) for n in row]), reference(before, after, g, m, v, threshold))


def test_what_is_seen_in_part_is_scaled(module: str) -> None:
    p = torch.ones(10)
    row = update_statistics(
        flat(p), flat(p * 3), gradient=None, first=flat(p), second=None, threshold=0.0, count=40
    )
    assert [float(n) for n in row[:2]] == [40, 160] and row[-1] == 0.25


def test_picked_values_are_those_of_the_spans(module: str) -> None:
    values = flat(torch.arange(5 * BLOCK + 3.0))
    found = pick(values, (np.array([BLOCK, 5 * BLOCK]), np.array([BLOCK, 3])))
    expected = [*range(BLOCK, 2 * BLOCK), *range(5 * BLOCK, 5 * BLOCK + 3)]
    assert found.tolist() == expected
    assert pick(values, None) is values


def test_a_local_shard_is_measured() -> None:
    class Sharded(torch.Tensor):
        def to_local(self) -> torch.Tensor:
            return torch.ones(2)

    assert flat(torch.ones(8).as_subclass(Sharded)).tolist() == [1, 1]


def test_memory_that_is_there_is_held() -> None:
    assert is_held(torch.ones(3)[1:]) and is_held(torch.ones(0)) and is_held(torch.tensor(1.0))
    view = torch.ones(4, 4).t()[1:]
    assert is_held(view)
    view.untyped_storage().resize_(60)
    assert not is_held(view)
