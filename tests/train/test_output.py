"""Printing to a reader that may go away."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from lossleuth.train.output import Output
output = Output()
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
    assert errors == "note: nobody reads the output any more; training goes on\nstill here\n"
