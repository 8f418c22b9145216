"""The verbs for those who work on lossleuth."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., subprocess.CompletedProcess[str]]


def test_doctor_names_what_it_found(lossleuth: Command) -> None:
    done = lossleuth("doctor")
    assert done.returncode == 0
    assert "torch" in done.stdout


def test_a_fault_that_the_lab_does_not_know_is_refused(lossleuth: Command, tmp_path: Path) -> None:
    done = lossleuth("lab", "--fault", "no_such_fault", "--out", tmp_path)
    assert done.returncode == 2
    assert "no_such_fault" in done.stderr
