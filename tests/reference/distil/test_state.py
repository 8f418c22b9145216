"""The state file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from pupil import SETTINGS, model
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from lossleuth.reference.distil.average import Average
from lossleuth.reference.distil.state import FILE_NAME, Progress, load_state, save_state
from lossleuth.reference.train.loop import make_optimizer
from lossleuth.types.errors import BadInput

PROGRESS = Progress(step=3, bad_steps=1, empty_batches=2, best_loss=1.5, best_step=2, averaged=3)


def trained(seed: int) -> tuple[nn.ModuleDict, torch.optim.Optimizer, Average]:
    both = nn.ModuleDict({"student": model(seed=seed), "projectors": nn.ModuleDict()})
    both["norm"] = nn.BatchNorm1d(2)
    optimizer = make_optimizer(both, SETTINGS)
    average = Average(both["student"], 5)
    for parameter in both.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    average.update(both["student"])
    both["norm"](torch.randn(4, 2))
    return both, optimizer, average


def saved(folder: Path) -> tuple[Path, nn.ModuleDict, torch.optim.Optimizer, Average]:
    path = folder / FILE_NAME
    both, optimizer, average = trained(0)
    save_state(path, PROGRESS, SETTINGS, "fingerprint", both, optimizer, average)
    return path, both, optimizer, average


def test_a_state_is_restored_to_the_last_bit(tmp_path: Path) -> None:
    path, both, optimizer, average = saved(tmp_path)
    drawn = torch.rand(3)
    others, other_optimizer, other_average = trained(1)
    state = load_state(tmp_path)
    assert state.path == path and state.progress == PROGRESS and state.data == "fingerprint"
    assert state.saved_settings() == SETTINGS
    state.restore(others, other_optimizer, other_average)
    assert torch.equal(torch.rand(3), drawn)
    for name, tensor in both.state_dict().items():
        assert torch.equal(tensor, others.state_dict()[name])
    for one, other in zip(both.parameters(), others.parameters(), strict=True):
        for moment, tensor in optimizer.state[one].items():
            assert torch.equal(tensor, other_optimizer.state[other][moment])
    assert other_average.updates == 3
    assert all(torch.equal(t, other_average.tensors[n]) for n, t in average.tensors.items())


def test_tensors_of_another_run_are_refused_before_anything_is_restored(tmp_path: Path) -> None:
    saved(tmp_path)
    both, optimizer, _ = trained(1)
    before = {name: tensor.clone() for name, tensor in both.state_dict().items()}
    with pytest.raises(BadInput, match="other tensors than the run has: average"):
        load_state(tmp_path).restore(both, optimizer, None)
    wider = nn.ModuleDict({"student": model(width=32), "norm": nn.BatchNorm1d(2)})
    with pytest.raises(
        BadInput, match=r"as torch.float32 \(20, 16\) instead of torch.float32 \(20, 32\)"
    ):
        load_state(tmp_path).restore(
            wider, make_optimizer(wider, SETTINGS), Average(wider["student"], 5)
        )
    assert all(torch.equal(before[name], tensor) for name, tensor in both.state_dict().items())


def header(**changes: Any) -> dict[str, Any]:
    whole = {"version": 1, "progress": asdict(PROGRESS), "settings": asdict(SETTINGS), "data": "x"}
    return whole | changes


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (None, "a header that is not distil's"),
        ("[" * 10_000, "a header that is not distil's"),
        (json.dumps(header(version=9)), "format version 9, this release reads 1"),
        (json.dumps(header(progress={})), "a header with other fields"),
        (
            json.dumps(header(progress=asdict(PROGRESS) | {"step": -1})),
            "a header with other fields",
        ),
        (json.dumps(header(progress=asdict(PROGRESS) | {"step": True})), "with other fields"),
        (json.dumps(header(more=1)), "a header with other fields"),
        (json.dumps(header(settings={"temperature": 0.0})), "settings that cannot be"),
        (json.dumps(header(settings={"colour": 0.0})), "settings that cannot be"),
    ],
)
def test_a_foreign_file_is_refused_with_the_reason(
    tmp_path: Path, written: str | None, reason: str
) -> None:
    path, *_ = saved(tmp_path)
    save_file(load_file(path), path, None if written is None else {"distil": written})
    with pytest.raises(BadInput, match=reason):
        load_state(path)


def test_what_is_no_file_or_no_safetensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no file at"):
        load_state(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(b"\x80\x04 a pickle")
    with pytest.raises(BadInput, match="the state of a distillation at"):
        load_state(tmp_path)


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    both, optimizer, average = trained(0)
    with torch.no_grad():
        both["student"].final_norm.weight[0] = math.nan
    save_state(path, PROGRESS, SETTINGS, "x", both, optimizer, average)
    with pytest.raises(BadInput, match=r"NaN or infinity in weights.student.final_norm.weight"):
        load_state(path).restore(both, optimizer, average)


def test_a_state_from_before_the_loss_kernels_goes_on_as_it_was_made(tmp_path: Path) -> None:
    path = saved(tmp_path)[0]
    with safe_open(path, framework="pt") as stream:
        header = json.loads(stream.metadata()["distil"])
    assert header["settings"].pop("loss_kernel") == "auto"
    save_file(load_file(path), path, {"distil": json.dumps(header)})
    assert load_state(path).saved_settings().loss_kernel == "torch"
