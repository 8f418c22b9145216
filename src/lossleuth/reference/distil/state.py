"""The state of a distillation: one safetensors file with all that is needed to go on bit for bit.

It stands beside the student's own file, which any other command can read. Neither needs the other
to be of the same step: a resumed run makes the steps between again, and the same student of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from lossleuth.files import replace_path
from lossleuth.record import strict_json
from lossleuth.reference.distil.average import Average
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.train.checkpoint_check import MOMENTS
from lossleuth.reference.train.settings import as_it_was
from lossleuth.settings import resolve
from lossleuth.types.errors import BadInput

FILE_NAME = "distil.safetensors"
VERSION = 1


@dataclass(frozen=True)
class Progress:
    """Where a run stands."""

    step: int = 0
    bad_steps: int = 0
    empty_batches: int = 0
    best_loss: float | None = None
    best_step: int = 0
    waited: int = 0
    averaged: int = 0


@dataclass(frozen=True)
class State:
    """A state that was read: its tensors are checked against the run that takes them."""

    path: Path
    progress: Progress
    settings: Mapping[str, Any]
    data: str
    tensors: Mapping[str, Tensor]

    def saved_settings(self) -> DistilSettings:
        """The settings that the run was made with."""
        return resolve(DistilSettings, options={}, saved=self.settings).values

    def restore(
        self, trainable: nn.Module, optimizer: torch.optim.Optimizer, average: Average | None
    ) -> None:
        """Give a run its weights, moments, averages and random stream back, or refuse."""
        wanted = _tensors(trainable, optimizer, average)
        if wanted.keys() != self.tensors.keys():
            others = sorted(wanted.keys() ^ self.tensors.keys())[:3]
            raise refused(self.path, f"other tensors than the run has: {', '.join(others)}")
        for name, tensor in wanted.items():
            found = self.tensors[name]
            if (found.dtype, found.shape) != (tensor.dtype, tensor.shape):
                kinds = f"{found.dtype} {tuple(found.shape)}"
                raise refused(
                    self.path, f"{name} as {kinds} instead of {tensor.dtype} {tuple(tensor.shape)}"
                )
            if name.startswith("weights.") and not found.isfinite().all():
                raise refused(self.path, f"NaN or infinity in {name}")
        with torch.no_grad():
            for name, tensor in _own(trainable).items():
                tensor.copy_(self.tensors[f"weights.{name}"])
        for name, parameter in trainable.named_parameters():
            optimizer.state[parameter] = {
                moment: self.tensors[f"optimizer.{name}.{moment}"].to(parameter.device, copy=True)
                for moment in MOMENTS
            }
        if average is not None:
            averages = {name: self.tensors[f"average.{name}"] for name in average.tensors}
            average.restore(averages, self.progress.averaged)
        torch.set_rng_state(self.tensors["random.torch"])


def save_state(
    path: Path,
    progress: Progress,
    settings: DistilSettings,
    data: str,
    trainable: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: Average | None,
) -> None:
    """Write a state whole, or leave the old one as it was and raise OSError."""
    header = {
        "version": VERSION,
        "progress": asdict(progress),
        "settings": asdict(settings),
        "data": data,
    }
    tensors = _tensors(trainable, optimizer, average)
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    with replace_path(path) as temporary:
        try:
            save_file(tensors, temporary, {"distil": strict_json.dumps(header)})
        except SafetensorError as error:
            raise OSError(None, str(error), str(path)) from None


def load_state(path: Path) -> State:
    """Read a state, or a run directory's; refuse what is none, with the reason."""
    if path.is_dir():
        path = path / FILE_NAME
    if not path.is_file():
        raise BadInput(
            "a distillation to resume", f"no file at {path}", "give a run directory of `distil`"
        )
    try:
        with safe_open(path, framework="pt") as stream:
            header = _header(path, stream.metadata() or {})
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise refused(path, str(error)) from None
    settings = as_it_was(header["settings"])
    state = State(path, Progress(**header["progress"]), settings, header["data"], tensors)
    try:
        state.saved_settings()
    except BadInput as refusal:
        raise refused(
            path, f"settings that cannot be ({refusal.found} instead of {refusal.expected})"
        ) from None
    return state


def refused(path: Path, found: str) -> BadInput:
    """The refusal of a file that is no sound state."""
    return BadInput(
        f"the state of a distillation at {path}", found, "use one that `lossleuth distil` wrote"
    )


def _header(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    try:
        saved = json.loads(metadata["distil"])
        version = saved["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise refused(path, "a header that is not distil's") from None
    if version != VERSION:
        raise refused(path, f"format version {version!r}, this release reads {VERSION}")
    progress = saved.get("progress")
    kinds = {"best_loss": (int, float, type(None))}
    whole = {field.name: kinds.get(field.name, (int,)) for field in fields(Progress)}
    if (
        saved.keys() != {"version", "progress", "settings", "data"}
        or not isinstance(saved["settings"], dict)
        or not isinstance(saved["data"], str)
        or not isinstance(progress, dict)
        or progress.keys() != whole.keys()
        or any(type(progress[name]) not in kind for name, kind in whole.items())
        or any((value or 0) < 0 for value in progress.values())
    ):
        raise refused(path, "a header with other fields")
    return dict(saved)


def _own(trainable: nn.Module) -> dict[str, Tensor]:
    """Parameters, and the buffers that a module wants saved; tied ones once."""
    kept = trainable.state_dict().keys()
    buffers = {name: b for name, b in trainable.named_buffers() if name in kept}
    return {**dict(trainable.named_parameters()), **buffers}


def _tensors(
    trainable: nn.Module, optimizer: torch.optim.Optimizer, average: Average | None
) -> dict[str, Tensor]:
    tensors = {f"weights.{name}": tensor for name, tensor in _own(trainable).items()}
    for name, parameter in trainable.named_parameters():
        # Before the first update Adam has no moments, which is the same as moments of 0.
        zeros = torch.zeros_like(parameter)
        fresh = {"step": torch.tensor(0.0), "exp_avg": zeros, "exp_avg_sq": zeros.clone()}
        state = optimizer.state[parameter] or fresh
        for moment in MOMENTS:
            tensors[f"optimizer.{name}.{moment}"] = state[moment]
    for name, tensor in (average.tensors if average else {}).items():
        tensors[f"average.{name}"] = tensor
    tensors["random.torch"] = torch.get_rng_state()
    return tensors
