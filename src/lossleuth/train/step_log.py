"""One line of strict JSON per step."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lossleuth.files import replace_file
from lossleuth.record import strict_json
from lossleuth.train.loop import Step

FILE_NAME = "record.jsonl"


class StepLog:
    """Appends steps to a file; a full disk costs lines, never the run."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._stream = path.open("ab", buffering=0)
        self._warn: Callable[[str], None] | None = warn

    def step(self, step: Step) -> None:
        """Append a step."""
        self.write({"kind": "step", **asdict(step), "clipped": step.clipped})

    def write(self, line: dict[str, Any]) -> None:
        """Append one line whole, or none of it."""
        encoded = strict_json.dumps(line).encode() + b"\n"
        whole = self._stream.seek(0, 2)
        try:
            written = self._stream.write(encoded)
            if written != len(encoded):
                raise OSError(None, f"only {written} of {len(encoded)} bytes could be written")
        except OSError as error:
            self._stream.truncate(whole)
            if self._warn is not None:
                self._warn(f"the record misses steps: {error.strerror}; training goes on")
                self._warn = None

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def forget_from(path: Path, step: int) -> None:
    """Drop the steps that a resumed run will make again."""
    if not path.exists():
        return
    # What follows the last line break was torn by a crash.
    whole = path.read_bytes().rpartition(b"\n")[0].splitlines(keepends=True)
    with replace_file(path) as stream:
        for line in whole:
            if json.loads(line)["step"] < step:
                stream.write(line.rstrip(b"\n") + b"\n")
