"""Where the trainer prints: a reader that goes away, or a full disk, does not end the run."""

from __future__ import annotations

import os
import sys
from typing import IO, Any, cast

from rich.console import Console


class PatientStream:
    """A text stream that falls silent, and says so on stderr, when it cannot be written to."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or give up for good."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flush, or give up for good."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError) -> None:
        # What Python itself still holds, and writes at its exit, must not fail either.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        print(f"note: no more output ({error.strerror}); training goes on", file=sys.stderr)


def patient_console() -> Console:
    """A console on stdout that outlives its reader."""
    return Console(file=cast(IO[str], PatientStream(sys.stdout)))
