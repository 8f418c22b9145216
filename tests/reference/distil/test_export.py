"""The student as other commands read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hosts import save_host
from pupil import TEXT
from safetensors.torch import load_file
from torch import nn

from lossleuth.reference.distil.assembly import Assembly, assemble
from lossleuth.reference.distil.export import export_student, forget_student
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.sources import load_source
from lossleuth.reference.train.checkpoint import load_checkpoint
from lossleuth.reference.train.model import LanguageModel


def exported(made: Assembly, folder: Path, student: nn.Module | None = None) -> Path:
    return export_student(folder, student or made.student, made.prepared, made.of_student, 5)


def test_the_reference_model_becomes_a_checkpoint_of_the_trainer(
    settings: DistilSettings, tmp_path: Path
) -> None:
    made = assemble(settings)
    path = exported(made, tmp_path)
    read = load_checkpoint(path)
    assert read.header.step == 5 and read.tokenizer().size == made.prepared.tokenizer.size
    again = load_source(str(tmp_path), "teacher").module
    assert isinstance(again, LanguageModel)
    for one, other in zip(again.parameters(), made.student.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_model_of_hugging_face_becomes_a_directory_of_theirs(
    settings: DistilSettings, tmp_path: Path
) -> None:
    folder = tmp_path / "host"
    folder.mkdir()
    made = assemble(replace(settings, student=str(save_host(folder, [TEXT]))))
    with torch.no_grad():
        next(made.student.parameters()).add_(1)
    for _ in range(2):
        path = exported(made, tmp_path)
    assert [p.name for p in tmp_path.iterdir()].count("student") == 1
    read = load_source(str(path), "teacher")
    assert torch.equal(next(read.module.parameters()), next(made.student.parameters()))
    assert read.tokenizer is not None and read.tokenizer.size == made.prepared.tokenizer.size


def test_any_other_module_becomes_a_file_of_its_tensors(
    settings: DistilSettings, tmp_path: Path
) -> None:
    net = nn.Linear(3, 2)
    path = exported(assemble(settings), tmp_path, net)
    assert torch.equal(load_file(path)["weight"], net.weight)


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "student.safetensors", "student/x"])
def test_the_student_of_an_older_run_goes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    (tmp_path / "notes.txt").touch()
    forget_student(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
