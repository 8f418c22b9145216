"""Checkpoints: one safetensors file that holds all a run needs to go on bit for bit.

The JSON header inside the file carries settings, tokenizer and position; the tensors are the
parameters, the optimizer's moments and the random state. One file, renamed into place, cannot
be half new and half old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lossleuth.files import replace_path
from lossleuth.record import strict_json
from lossleuth.reference.train.checkpoint_check import (
    MOMENTS,
    Header,
    check_tensors,
    read_header,
    refused,
)
from lossleuth.reference.train.model import LanguageModel, ModelShape
from lossleuth.reference.train.tokenizer import Tokenizer, load_tokenizer
from lossleuth.types.errors import BadInput

FILE_NAME = "checkpoint.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and found sound."""

    path: Path
    header: Header
    tensors: Mapping[str, Tensor]

    @property
    def shape(self) -> ModelShape:
        """Shape of the saved model."""
        return ModelShape(**self.header.shape)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the model was trained with."""
        return load_tokenizer(self.header.tokenizer)

    def model(self) -> LanguageModel:
        """The saved model."""
        model = LanguageModel(self.shape)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.tensors[f"model.{name}"])
        return model

    def restore_optimizer(self, model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
        """Give the optimizer its moments back, each where its parameter is.

        The fused Adam wants the count of steps there too.
        """
        for name, parameter in model.named_parameters():
            optimizer.state[parameter] = {
                moment: self.tensors[f"optimizer.{name}.{moment}"].to(parameter.device, copy=True)
                for moment in MOMENTS
            }

    def restore_random_state(self) -> None:
        """Continue the random stream where it was."""
        torch.set_rng_state(self.tensors["random.torch"])
        if "random.cuda" in self.tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(self.tensors["random.cuda"])


def save_checkpoint(
    path: Path, header: Header, model: LanguageModel, optimizer: torch.optim.Optimizer
) -> None:
    """Write a checkpoint whole, or leave the old one as it was and raise OSError."""
    tensors = {f"model.{name}": parameter.detach() for name, parameter in model.named_parameters()}
    for name, parameter in model.named_parameters():
        # Before the first update Adam has no moments, which is the same as moments of 0.
        state = optimizer.state[parameter] or _fresh_moments(parameter)
        for moment in MOMENTS:
            tensors[f"optimizer.{name}.{moment}"] = state[moment]
    tensors["random.torch"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    tensors = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
    with replace_path(path) as temporary:
        try:
            save_file(tensors, temporary, {"lossleuth": strict_json.dumps(asdict(header))})
        except SafetensorError as error:
            raise OSError(None, str(error), str(path)) from None


def _fresh_moments(parameter: Tensor) -> dict[str, Tensor]:
    zeros = torch.zeros_like(parameter)
    return {"step": torch.tensor(0.0), "exp_avg": zeros, "exp_avg_sq": zeros.clone()}


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, or a run directory's; refuse what does not fit, with the reason."""
    if path.is_dir():
        path = path / FILE_NAME
    if not path.is_file():
        raise BadInput("a checkpoint", f"no file at {path}", "give a run directory or a file")
    try:
        with safe_open(path, framework="pt") as stream:
            header = read_header(path, stream.metadata() or {})
            slices = {name: stream.get_slice(name) for name in stream.keys()}  # noqa: SIM118
            kinds = {n: (s.get_dtype(), tuple(s.get_shape())) for n, s in slices.items()}
            check_tensors(path, header, kinds)
            tensors = {name: stream.get_tensor(name) for name in kinds}
    except (SafetensorError, OSError) as error:
        raise refused(path, str(error)) from None
    return Checkpoint(path, header, tensors)
