"""The student as other commands read it: the best one so far, by its true loss."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from safetensors.torch import save_file
from torch import nn

from lossleuth.files import replace_path
from lossleuth.reference.distil.host_tokenizer import HostTokenizer
from lossleuth.reference.distil.outputs import is_host_model
from lossleuth.reference.train import checkpoint as checkpoints
from lossleuth.reference.train.checkpoint_check import Header
from lossleuth.reference.train.loop import make_optimizer
from lossleuth.reference.train.model import LanguageModel
from lossleuth.reference.train.prepare import Prepared
from lossleuth.reference.train.settings import TrainSettings

WEIGHTS = "student.safetensors"
HOST_DIRECTORY = "student"
FILE_NAMES = (checkpoints.FILE_NAME, WEIGHTS, HOST_DIRECTORY)


def export_student(
    directory: Path, student: nn.Module, prepared: Prepared, settings: TrainSettings, step: int
) -> Path:
    """Save the student in the form of its kind, and return where.

    The reference model becomes a checkpoint of the trainer, for `evaluate`, `generate` and as the
    next teacher; its moments are fresh, since it is for use and not for resuming. A model of
    Hugging Face becomes a directory of theirs, any other module a file of its tensors.
    """
    tokenizer = prepared.tokenizer
    if isinstance(student, LanguageModel) and not isinstance(tokenizer, HostTokenizer):
        header = Header(
            step=step,
            settings=asdict(settings),
            shape=asdict(student.shape),
            tokenizer=tokenizer.to_json(),
            data=prepared.fingerprint,
        )
        path = directory / checkpoints.FILE_NAME
        checkpoints.save_checkpoint(path, header, student, make_optimizer(student, settings))
        return path
    if is_host_model(student) and isinstance(tokenizer, HostTokenizer):
        return _save_host(directory / HOST_DIRECTORY, student, tokenizer)
    path = directory / WEIGHTS
    with replace_path(path) as temporary:
        tensors = {name: p.detach().cpu().contiguous() for name, p in student.named_parameters()}
        save_file(tensors, temporary)
    return path


def forget_student(directory: Path) -> None:
    """Remove the student of an older run."""
    for name in FILE_NAMES:
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _save_host(path: Path, student: nn.Module, tokenizer: HostTokenizer) -> Path:
    """A directory cannot be replaced in one go: the new one is whole before the old one goes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    model = cast(Any, student)
    try:
        model.save_pretrained(temporary)
        tokenizer.host.save_pretrained(temporary)
        shutil.rmtree(path, ignore_errors=True)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return path
