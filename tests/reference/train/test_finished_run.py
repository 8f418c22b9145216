"""A finished run, evaluated and continued; `test_commands.py` calls the verbs as a user does."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from small import SETTINGS

from lossleuth.reference.train.checkpoint import load_checkpoint
from lossleuth.reference.train.finished_run import own_data, run_evaluation, run_generation
from lossleuth.reference.train.session import Session
from lossleuth.settings import Resolved
from lossleuth.types.errors import BadInput

TEXT = "she sells sea shells by the sea shore. "


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT * 40)
    settings = replace(SETTINGS, data=(str(tmp_path / "text.txt"),), steps=2)
    resolved = Resolved(settings, dict.fromkeys(settings.__dataclass_fields__, "test"))
    Session(resolved, tmp_path / "run", Console(file=io.StringIO())).run()
    return tmp_path / "run"


def test_data_that_have_changed_are_not_the_runs_own(run: Path) -> None:
    assert own_data(load_checkpoint(run)).tokens is not None
    (run.parent / "text.txt").write_text(TEXT * 41)
    with pytest.raises(BadInput, match="has changed"):
        own_data(load_checkpoint(run))


def test_every_token_of_other_files_is_evaluated(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = run.parent / "other.txt"
    other.write_text(TEXT)
    run_evaluation(run, [str(other)], as_json=True)
    assert json.loads(capsys.readouterr().out)["tokens"] == len(TEXT) + 1


def test_what_is_generated_follows_the_prompt(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_generation(run, "she", 5, 1.0, 0, 1.0, 0, cached=True)
    written = capsys.readouterr().out
    assert written.startswith("she") and written.endswith("\n")
    with pytest.raises(BadInput, match="1 or more for --tokens"):
        run_generation(run, "she", 0, 1.0, 0, 1.0, 0, cached=True)
