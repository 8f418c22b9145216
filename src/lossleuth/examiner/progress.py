"""What is being done, while it is done: a moving line in a terminal, plain lines elsewhere.

Programs that read along get JSON, one object on each line.
"""

from __future__ import annotations

import json
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Telling:
    """Called with each sentence; the latest moves until the next one comes.

    >>> with Telling(quiet=True) as told:
    ...     told("nothing is shown")
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self._quiet = quiet
        self._as_json = as_json
        self._began = time.monotonic()
        self._shown: Progress | None = None
        self._task: TaskID | None = None
        self._latest: str | None = None

    def __enter__(self) -> Telling:
        """Begin to move, if there is somebody to see it."""
        if not self._quiet and not self._as_json and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._shown = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._shown.start()
        return self

    def __call__(self, sentence: str) -> None:
        """Say what is being done now."""
        if self._quiet:
            return
        if self._as_json:
            seconds = round(time.monotonic() - self._began, 1)
            line = json.dumps({"progress": sentence, "seconds": seconds})
            print(line, file=sys.stderr, flush=True)
            return
        if self._shown is None:
            print(f"  {sentence}", file=sys.stderr, flush=True)
            return
        self._leave_latest()
        self._latest = sentence
        if self._task is None:
            self._task = self._shown.add_task(sentence, total=None)
        else:
            self._shown.update(self._task, description=sentence)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the last sentence standing still."""
        if self._shown is not None:
            self._shown.stop()
            self._leave_latest()

    def _leave_latest(self) -> None:
        if self._latest is not None and self._shown is not None:
            self._shown.console.print(f"  {self._latest}", markup=False, highlight=False)
            self._latest = None
