"""Logits from a grid and from files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lossleuth.labs.precision.given_logits import SPREADS, from_file, generated
from lossleuth.types.errors import BadInput


def saved(folder: Path, name: str, values: Any) -> Path:
    np.save(folder / name, values)
    return folder / name


def logits(rows: int = 6, vocabulary: int = 4) -> Any:
    return np.random.default_rng(0).normal(size=(rows, vocabulary)).astype(np.float32)


def test_a_grid_has_rows_of_every_spread_in_both_halves() -> None:
    made = generated(2000, 40, seed=0)
    for half in (made.half_N, ~made.half_N):
        spreads = made.logits_NV[half].std(1)
        near = {min(SPREADS, key=lambda s: abs(s - float(found))) for found in spreads}
        assert near == set(SPREADS)
    assert torch.equal(made.logits_NV, generated(2000, 40, seed=0).logits_NV)
    assert not torch.equal(made.logits_NV, generated(2000, 40, seed=1).logits_NV)


def test_two_rows_have_two_halves() -> None:
    assert generated(34, 2, seed=0).half_N.tolist() == [True, False]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_logits_of_a_file_are_read(tmp_path: Path, kind: Any) -> None:
    values = logits(6).astype(kind)
    step = from_file(saved(tmp_path, "x.npy", values.reshape(2, 3, 4)), None, 5, seed=0)
    assert step.logits_NV.dtype is torch.float32
    assert np.array_equal(step.logits_NV.numpy(), values[:5].astype(np.float32))
    assert "5 of 6 rows of x.npy, V = 4" in step.source


def test_targets_of_a_file_are_taken(tmp_path: Path) -> None:
    targets = saved(tmp_path, "y.npy", np.array([3, 2, 1, 0, 3, 2], np.int32))
    step = from_file(saved(tmp_path, "x.npy", logits()), targets, 4, seed=0)
    assert step.targets_N.tolist() == [3, 2, 1, 0]


def test_what_cannot_be_is_allowed(tmp_path: Path) -> None:
    values = logits()
    values[:, 1] = -math.inf
    step = from_file(saved(tmp_path, "x.npy", values), None, 6, seed=0)
    assert (step.targets_N != 1).all()


class Trap:
    """Leaves a file behind if it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.arange(12).reshape(3, 4), "found int64 of shape"),
        (np.zeros(5), "found float64 of shape"),
        (np.zeros((3, 1)), "found float64 of shape"),
        (np.zeros((1, 4)), "at least two rows"),
        (np.full((3, 4), np.nan), "NaN, infinity, or a row of nothing but -inf"),
        (np.full((3, 4), np.inf), "NaN, infinity, or a row of nothing but -inf"),
        (np.full((3, 4), -np.inf), "NaN, infinity, or a row of nothing but -inf"),
    ],
)
def test_what_are_no_logits_is_refused(tmp_path: Path, values: Any, reason: str) -> None:
    with pytest.raises(BadInput, match=reason) as refusal:
        from_file(saved(tmp_path, "x.npy", values), None, 10, seed=0)
    assert "\n" not in str(refusal.value)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    path = tmp_path / "x.npy"
    np.save(path, np.array([Trap(str(canary))], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match=r"logits in a file of numpy\.save"):
        from_file(path, None, 10, seed=0)
    assert not canary.exists()


@pytest.mark.parametrize("content", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"logits in a file of numpy\.save") as refusal:
        from_file(path, None, 10, seed=0)
    assert "\n" not in str(refusal.value)


def test_several_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=logits(), b=logits())
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(BadInput, match="one array of logits"):
        from_file(tmp_path / "x.npy", None, 10, seed=0)


@pytest.mark.parametrize("targets", [[0, 1], [0.0] * 6, [0, 1, 2, 3, 4, 0], [-1] * 6])
def test_targets_that_do_not_fit_are_refused(tmp_path: Path, targets: Any) -> None:
    path = saved(tmp_path, "y.npy", np.array(targets))
    with pytest.raises(BadInput, match="6 whole numbers from 0 to 3"):
        from_file(saved(tmp_path, "x.npy", logits()), path, 10, seed=0)
