"""Shows what `run` is doing: one moving line in a terminal, plain lines elsewhere.

Programs that read along get JSON, one object per line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from lossleuth.types.judgement import Judgement, Status

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@dataclass(frozen=True)
class RuledOut:
    """How many causes are ruled out so far; their ids and reasons are in the report.

    >>> str(RuledOut(38, 50))
    '38 of 50 causes ruled out'
    """

    count: int
    causes: int

    @classmethod
    def of(cls, judgements: Mapping[str, Judgement]) -> RuledOut:
        """Counted in what is judged of each cause."""
        refuted = [j for j in judgements.values() if j.status is Status.REFUTED]
        return cls(len(refuted), len(judgements))

    def __str__(self) -> str:
        return f"{self.count} of {self.causes} causes ruled out"


@dataclass(frozen=True)
class Announcement:
    """A sentence that stays on the screen."""

    sentence: str

    def __str__(self) -> str:
        return self.sentence


News = str | RuledOut | Announcement


class ProgressPrinter:
    """Call it with a sentence for each thing that is begun, and with what is found on the way.

    >>> with ProgressPrinter(quiet=True) as report_progress:
    ...     report_progress("nothing is shown")
    """

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self._quiet = quiet
        self._as_json = as_json
        self._began = time.monotonic()
        self._moving: Progress | None = None
        self._task: TaskID | None = None
        self._sentence = "starting"
        self._ruled_out: RuledOut | None = None

    def __enter__(self) -> ProgressPrinter:
        """Start the moving line, if there is a terminal to show it."""
        if not self._quiet and not self._as_json and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.table import Column

            # A sentence that is too long for the terminal is cut: one line stays one line.
            one_line = Column(no_wrap=True, overflow="ellipsis")
            self._moving = Progress(
                SpinnerColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False, table_column=one_line),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._moving.add_task(self._line(), total=None)
            self._moving.start()
        return self

    def __call__(self, news: News) -> None:
        """Show what is being done now, or what is known by now."""
        if self._quiet:
            return
        if self._as_json:
            seconds = round(time.monotonic() - self._began, 1)
            line = json.dumps({"progress": str(news), "seconds": seconds})
            print(line, file=sys.stderr, flush=True)
        elif self._moving is None or self._task is None:
            print(f"  {news}", file=sys.stderr, flush=True)
        elif isinstance(news, Announcement):
            self._moving.console.print(f"  {news}", markup=False, highlight=False)
        else:
            if isinstance(news, RuledOut):
                self._ruled_out = news
            else:
                self._sentence = news
            self._moving.update(self._task, description=self._line())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Clear the moving line: the verdict takes its place."""
        if self._moving is not None:
            self._moving.stop()

    def _line(self) -> str:
        if self._ruled_out is None:
            return self._sentence
        return f"{self._ruled_out} · {self._sentence}"
