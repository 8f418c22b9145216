"""A teacher trained once for all tests of the distiller."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from pupil import SETTINGS, TEACHER, TEXT
from rich.console import Console

from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.train.session import Session
from lossleuth.settings import Resolved


@pytest.fixture(scope="session")
def teacher_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a trained teacher, with its text beside it."""
    folder = tmp_path_factory.mktemp("teacher")
    (folder / "text.txt").write_text(TEXT)
    settings = replace(TEACHER, data=(str(folder / "text.txt"),))
    sources = dict.fromkeys(settings.__dataclass_fields__, "test")
    Session(Resolved(settings, sources), folder / "run", Console(file=io.StringIO())).run()
    return folder / "run"


@pytest.fixture
def settings(teacher_run: Path) -> DistilSettings:
    """A distillation from that teacher on the same text."""
    data = (str(teacher_run.parent / "text.txt"),)
    return replace(SETTINGS, teacher=str(teacher_run), data=data)
