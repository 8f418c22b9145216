"""One line of strict JSON per step."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lossleuth.files import replace_file
from lossleuth.record import strict_json
from lossleuth.reference.train.loop import Step
from lossleuth.types.errors import BadInput

FILE_NAME = "record.jsonl"


class StepLog:
    """Appends steps to a file; a full disk costs lines, never the run."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._stream = path.open("ab", buffering=0)
        self._warn: Callable[[str], None] | None = warn

    def step(self, step: Step) -> None:
        """Append a step, counted from 1 as on the screen and in the checkpoint."""
        line = {"kind": "step", **asdict(step), "clipped": step.clipped}
        self.write(line | {"step": step.step + 1})

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


def lines_up_to(path: Path, made: int) -> list[bytes]:
    """The lines of a record about the first `made` steps; refuse a file that is no record."""
    if not path.exists():
        return []
    # What follows the last line break was torn by a crash.
    whole = path.read_bytes().rpartition(b"\n")[0]
    kept = []
    for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            read = None
        step = read.get("step") if isinstance(read, dict) else None
        if type(step) is not int:
            raise BadInput(
                "a record that `lossleuth train` wrote",
                f"line {number} of {path}, which is no step",
                "move the file away, or resume without --record",
            )
        if step <= made:
            kept.append(line + b"\n")
    return kept


def forget_after(path: Path, made: int) -> None:
    """Drop the steps that a resumed run will make again."""
    if path.exists():
        kept = lines_up_to(path, made)
        with replace_file(path) as stream:
            stream.writelines(kept)
