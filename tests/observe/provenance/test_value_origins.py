"""Which file weights and tokens came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from lossleuth.observe.provenance.value_origins import (
    WeightSample,
    token_origin,
    token_run,
    weight_origins,
)


def samples(model: torch.nn.Module) -> dict[str, WeightSample]:
    return {name: WeightSample.of(p) for name, p in model.named_parameters()}


def model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    made = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.LayerNorm(8))
    return torch.nn.Sequential(*made, torch.nn.Linear(8, 4))


def test_weights_are_traced_to_the_file_they_were_loaded_from(tmp_path: Path) -> None:
    right, wrong, text = (str(tmp_path / name) for name in ("right.pt", "wrong.pt", "notes.txt"))
    torch.save(model(1).state_dict(), right)
    torch.save({"model": model(2).state_dict()}, wrong)
    Path(text).write_text("not weights")
    loaded = model(3)
    loaded.load_state_dict(torch.load(right))
    found = weight_origins(samples(loaded), [wrong, text, right, str(tmp_path / "gone")])
    assert [file["file"] for file in found["files"]] == [right]
    assert found["unexplained"] == []
    assert found["files"][0]["share"] + found["undecidable_share"] == pytest.approx(1)


def test_a_part_that_was_never_loaded_is_unexplained(tmp_path: Path) -> None:
    path = str(tmp_path / "part.safetensors")
    donor, loaded = model(1).state_dict(), model(3)
    save_file({"x": donor["0.weight"], "y": donor["0.bias"]}, path)
    loaded.load_state_dict({"0.weight": donor["0.weight"], "0.bias": donor["0.bias"]}, strict=False)
    found = weight_origins(samples(loaded), [path])
    assert found["files"][0]["tensors"] == 2
    assert found["unexplained"] == ["2.weight"]
    assert 0 < found["unexplained_share"] < 0.5


@pytest.mark.parametrize("there", [torch.bfloat16, torch.float16, torch.float64, torch.float32])
@pytest.mark.parametrize("here", [torch.float32, torch.bfloat16])
def test_a_change_of_type_on_the_way_is_followed(
    tmp_path: Path, there: torch.dtype, here: torch.dtype
) -> None:
    path = str(tmp_path / "w.pt")
    torch.save(model(1).to(there).state_dict(), path)
    loaded = model(3).to(here)
    loaded.load_state_dict(torch.load(path))
    assert weight_origins(samples(loaded), [path])["unexplained"] == []


def test_weights_that_moved_since_are_not_those_of_the_file(tmp_path: Path) -> None:
    path, trained = str(tmp_path / "w.pt"), model(1)
    torch.save(trained.state_dict(), path)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter *= 1 + 2**-20
    assert weight_origins(samples(trained), [path])["files"] == []


@pytest.mark.parametrize("kind", ["<u2", "<u4", "<i8", ">u2", "<i4"])
def test_tokens_are_traced_to_file_type_and_place(tmp_path: Path, kind: str) -> None:
    tokens = np.random.default_rng(0).integers(0, 5000, 4000)
    path, other = tmp_path / "train.bin", tmp_path / "other.bin"
    path.write_bytes(b"head" + tokens.astype(kind).tobytes())
    other.write_bytes(tokens[::-1].astype(kind).tobytes())
    runs = [token_run(torch.from_numpy(tokens[at : at + 64])[None]) for at in (100, 3000)]
    found = token_origin([run for run in runs if run is not None], [str(other), str(path)])
    assert found is not None
    assert (found["file"], found["runs_found"]) == (str(path), 2)
    assert found["offset"] == 4 + 100 * np.dtype(kind).itemsize
    assert found["dtype"] == np.dtype(kind.replace("i4", "u4")).name
    assert found["big_endian"] == kind.startswith(">")


def test_a_run_of_few_different_tokens_is_not_looked_for() -> None:
    assert token_run(torch.zeros(2, 64, dtype=torch.int64)) is None
    assert token_run(torch.full((64,), -100)) is None


def test_a_pattern_across_two_chunks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lossleuth.observe.provenance.value_origins.CHUNK", 64)
    tokens = np.random.default_rng(0).integers(0, 5000, 400)
    path = tmp_path / "train.bin"
    path.write_bytes(tokens.astype("<u2").tobytes())
    run = token_run(torch.from_numpy(tokens[203:230]))
    assert run is not None
    found = token_origin([run], [str(path)])
    assert found is not None
    assert found["offset"] == 406
