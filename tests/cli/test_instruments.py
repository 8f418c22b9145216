"""The verbs for those who work on lossleuth."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


def test_precision_tells_what_rounding_does(lossleuth: Command) -> None:
    done = lossleuth("precision", "--vocabulary", "34", "--rows", "20", "--only", "sums")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "a generated grid of 20 rows, V = 34" in lines[0]
    assert [line.split()[0] for line in lines[6:11]] == [
        *("naive", "pairwise", "kahan", "neumaier", "float64"),
    ]
    assert max(map(len, lines)) <= 80


def test_precision_prints_json(lossleuth: Command) -> None:
    done = lossleuth("precision", "--rows", "20", "--only", "differences", "--json")
    assert done.returncode == 0
    assert list(json.loads(done.stdout)) == ["reference", "step", "differences"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("absent.npy",), "nothing at absent.npy"),
        (("--case", "constant_loss"), "a case about precision (kahan), found constant_loss"),
        (("--dtype", "float8"), "'float8'"),
    ],
)
def test_precision_refuses_in_one_sentence(
    lossleuth: Command, arguments: tuple[str, ...], reason: str
) -> None:
    done = lossleuth("precision", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("lossleuth: expected") and reason in done.stderr
    assert done.stderr.count("\n") == 1
