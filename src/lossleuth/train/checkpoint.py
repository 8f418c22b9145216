"""Checkpoints: one safetensors file that holds all a run needs to go on bit for bit.

The JSON header inside the file carries settings, tokenizer and position; the tensors are the
parameters, the optimizer's moments and the random state. One file, renamed into place, cannot
be half new and half old.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lossleuth.files import replace_path
from lossleuth.record import strict_json
from lossleuth.train.model import LanguageModel, ModelShape
from lossleuth.train.oracle import parameter_shapes
from lossleuth.train.tokenizer import Tokenizer, load_tokenizer
from lossleuth.types import BadInput

FILE_NAME = "checkpoint.safetensors"
VERSION = 1
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Header:
    """What a checkpoint says about itself."""

    step: int
    settings: Mapping[str, Any]
    shape: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    data: str
    version: int = VERSION


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
        return load_tokenizer(dict(self.header.tokenizer))

    def model(self) -> LanguageModel:
        """The saved model."""
        model = LanguageModel(self.shape)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(self.tensors[f"model.{name}"])
        return model

    def restore_optimizer(self, model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
        """Give the optimizer its moments back."""
        for name, parameter in model.named_parameters():
            optimizer.state[parameter] = {
                moment: self.tensors[f"optimizer.{name}.{moment}"].clone() for moment in MOMENTS
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
            header = _read_header(path, stream.metadata() or {})
            _check_tensors(path, header, stream)
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _refused(path, str(error)) from None
    return Checkpoint(path, header, tensors)


def _read_header(path: Path, metadata: Mapping[str, str]) -> Header:
    if "lossleuth" not in metadata:
        raise _refused(path, "a safetensors file that lossleuth did not write")
    try:
        saved = json.loads(metadata["lossleuth"])
        version = saved["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _refused(path, "a header that is not lossleuth's") from None
    if version != VERSION:
        raise _refused(path, f"format version {version!r}, this release reads {VERSION}")
    try:
        return Header(**saved)
    except TypeError as error:
        raise _refused(path, f"a header with other fields ({error})") from None


def _check_tensors(path: Path, header: Header, stream: Any) -> None:
    """Every tensor that the header's model needs is there in its shape, and nothing else is."""
    found = {name: tuple(stream.get_slice(name).get_shape()) for name in stream.keys()}  # noqa: SIM118
    try:
        shape = ModelShape(**header.shape)
        # A header may claim any depth; the file has at least one tensor per layer.
        if not 0 < shape.layers <= len(found):
            raise ValueError(f"{shape.layers} layers but only {len(found)} tensors")
        expected_shapes = _expected_shapes(shape)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise _refused(path, f"a model shape that cannot be ({error})") from None
    vocabulary = _tokenizer_size(path, header)
    if vocabulary != shape.vocabulary:
        raise _refused(
            path, f"a tokenizer of {vocabulary} tokens with a model for {shape.vocabulary}"
        )
    for name, expected in expected_shapes.items():
        if name not in found:
            raise _refused(path, f"no tensor {name}")
        if expected is not None and found[name] != expected:
            raise _refused(path, f"{name} with shape {found[name]} instead of {expected}")
    extra = set(found) - set(expected_shapes) - {"random.cuda"}
    if extra:
        raise _refused(path, f"tensors that do not belong there: {sorted(extra)[:3]}")


def _tokenizer_size(path: Path, header: Header) -> int:
    try:
        return load_tokenizer(dict(header.tokenizer)).size
    except BadInput:
        raise
    except Exception as error:  # Hugging Face raises bare Exception for a bad definition
        raise _refused(path, f"no tokenizer in it ({type(error).__name__}: {error})") from None


def _expected_shapes(shape: ModelShape) -> dict[str, tuple[int, ...] | None]:
    """Shape of every tensor that must be there; None where any will do."""
    shapes: dict[str, tuple[int, ...] | None] = {"random.torch": None}
    for name, size in parameter_shapes(shape).items():
        shapes[f"model.{name}"] = size
        for moment in MOMENTS:
            shapes[f"optimizer.{name}.{moment}"] = () if moment == "step" else size
    return shapes


def _refused(path: Path, found: str) -> BadInput:
    return BadInput(
        f"a lossleuth checkpoint at {path}", found, "use one that `lossleuth train` wrote"
    )
