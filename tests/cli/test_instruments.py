"""The verbs for those who work on lossleuth."""

from __future__ import annotations

import subprocess
import sys
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


def test_without_the_package_mcp_says_how_to_get_it(tmp_path: Path) -> None:
    program = "import sys; sys.modules['mcp'] = None; from lossleuth.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "mcp"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("lossleuth: expected the package mcp, found it is not installed")
    assert done.stderr.endswith("pip install 'lossleuth[mcp]'\n")


def test_mcp_ends_well_when_nobody_is_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lossleuth", "mcp"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
