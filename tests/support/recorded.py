"""A small record with everything in it, and how to run things in other processes."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossleuth.record.write import RecordWriter

HEADER = {"script": "train.py", "rate": math.inf}
NAMES = ["wte", "head"]
COLUMNS = ["norm", "gradient"]
MATRIX = np.array([[1.0, math.nan], [-0.0, 5e-324]])
HOSTILE = "=cmd()"


def never(sentence: str) -> None:
    """Nothing may be told."""
    raise AssertionError(sentence)


def write_small(directory: Path, *, end: bool = True) -> RecordWriter:
    """A record of four steps: with and without a matrix, with a table declared again."""
    writer = RecordWriter.create(directory, HEADER, never)
    writer.parameters(NAMES, [64, 8], COLUMNS)
    writer.step({"step": 0, "loss": 2.5, "norms": [1.0, math.inf]}, MATRIX)
    writer.step({"step": 1, "loss": math.nan, HOSTILE: "-1+1"}, None)
    writer.event("warning", {"text": "NaN at step 1", "value": math.nan})
    writer.parameters([*NAMES, "lora"], [64, 8, 4], ["norm"])
    writer.step({"step": 1, "seed": 2**60 + 1, "ok": True}, np.array([[7.0], [8.0], [9.0]]))
    writer.step({"step": -3, "loss": -math.inf}, np.array([[1.0], [2.0], [3.0]]))
    if end:
        writer.end({"exit": 0})
    return writer


def same(found: NDArray[Any], expected: Any) -> bool:
    """Equal to the last bit, NaN and the sign of zero included."""
    expected = np.asarray(expected, dtype=np.float64)
    nan = np.isnan(expected)
    return (
        found.shape == expected.shape
        and found.dtype == np.float64
        and bool((np.isnan(found) == nan).all())
        and found[~nan].tobytes() == expected[~nan].tobytes()
    )


def strict(text: str | bytes) -> Any:
    """JSON as a browser reads it."""

    def refuse(token: str) -> Any:
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def run_script(
    source: str, *arguments: str | Path, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run Python source in a process of its own, without torch."""
    return subprocess.run(
        [*before, sys.executable, "-c", source, *map(str, arguments)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@contextlib.contextmanager
def started(source: str, *arguments: str | Path) -> Iterator[Process]:
    """Start Python source in a process of its own; it is dead when the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", source, *map(str, arguments)],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Process(process)
    finally:
        process.kill()
        process.communicate()


class Process:
    """A process that is talked with line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self) -> str:
        """The next line it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; wait for the end if it is a deadly one."""
        self._process.send_signal(number)
        if number is signal.SIGKILL:
            self._process.wait(60)

    def finish(self, said: str = "") -> str:
        """Say something, wait for a good end and take the rest of what it says."""
        out, err = self._process.communicate(said, timeout=60)
        assert self._process.returncode == 0, err
        return out
