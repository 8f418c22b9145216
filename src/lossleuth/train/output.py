"""Where the trainer prints: a reader that goes away does not end the run."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class Output(Console):
    """A console that falls silent, and says so, when nobody reads it any more."""

    def on_broken_pipe(self) -> None:
        """Train on: rich would end the process, and the run would be lost."""
        self.quiet = True
        # What Python itself still writes, at its exit too, must not fail either.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        print("note: nobody reads the output any more; training goes on", file=sys.stderr)
