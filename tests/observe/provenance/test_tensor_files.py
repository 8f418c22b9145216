"""Tensors inside files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from lossleuth.observe.provenance.tensor_files import stored_tensors

WEIGHTS = torch.arange(40, dtype=torch.float32) + 0.25


def write(path: Path, how: str) -> None:
    match how:
        case "safetensors":
            save_file({"a": torch.ones(3), "w": WEIGHTS}, path)
        case "torch":
            torch.save({"a": torch.ones(3), "nested": [{"w": WEIGHTS}]}, path)
        case "npy":
            np.save(path, WEIGHTS.numpy())
        case "npz":
            np.savez(path, a=np.ones(3), w=WEIGHTS.numpy())


@pytest.mark.parametrize("how", ["safetensors", "torch", "npy", "npz"])
def test_a_tensor_is_found_where_it_begins(tmp_path: Path, how: str) -> None:
    path = tmp_path / ("w.npz" if how == "npz" else "w.npy")
    write(path, how)
    data = path.read_bytes()
    with path.open("rb") as file:
        found = stored_tensors(file)
    beginnings = [data[s.offset : s.offset + s.size] for s in found]
    assert WEIGHTS.numpy().tobytes() in [piece[:160] for piece in beginnings]
    assert all(s.dtype in (None, torch.float32, torch.float64) for s in found)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda rest: b"PK\x03\x04" + rest))
def test_any_other_file_holds_none_and_raises_nothing(data: bytes) -> None:
    assert stored_tensors(io.BytesIO(data)) == []


def test_a_damaged_numpy_header_is_none() -> None:
    buffer = io.BytesIO()
    np.save(buffer, WEIGHTS.numpy())
    damaged = buffer.getvalue().replace(b"descr", b"d\x00scr")
    assert stored_tensors(io.BytesIO(damaged)) == []
