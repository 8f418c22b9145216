"""Printing to where it may not be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from lossleuth.reference.train.output import patient_console
output = patient_console()
for line in range(10_000):
    output.print(f"line {line}")
print("still here", file=sys.stderr)
"""


def test_a_closed_pipe_silences_the_output_and_ends_nothing() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline() == "line 0\n"
    process.stdout.close()
    with process.stderr as stream:
        errors = stream.read()
    assert process.wait(timeout=60) == 0
    assert errors == "note: no more output (Broken pipe); training goes on\nstill here\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_silences_the_output_and_ends_nothing() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 0
    expected = "note: no more output (No space left on device); training goes on\nstill here\n"
    assert result.stderr == expected


def test_what_can_be_written_is_written() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert result.stdout.splitlines() == [f"line {line}" for line in range(10_000)]
    assert result.stderr == "still here\n"
