"""Proofs as they are made: reads the record of the first look while it is written.

Only what recorded steps prove by themselves is said: no trial can take it back, though later steps
may. Then the verdict says that it is withdrawn. A failure here costs the early word and no more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.examiner.progress import Announcement
from lossleuth.judge.judge import Circumstances, judge
from lossleuth.judge.verdict import Verdict
from lossleuth.record.read import Record
from lossleuth.run_directory import RECORD, RunDirectory
from lossleuth.types.cause import Cause
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Judgement, Status

POLL_SECONDS = 0.5
# Fewest recorded steps that have to be known: what one shows may be that of the first step alone.
MIN_RECORDED_STEPS = 2


class EarlyProofs:
    """Within this block, says what the first look proves, in a thread of its own."""

    def __init__(
        self,
        causes: Sequence[Cause],
        run: RunDirectory,
        progress: Callable[[Announcement], None],
    ) -> None:
        self._causes = causes
        # What rests on the steps as a whole is not known before the last of them.
        self._structural = {cause.id for cause in causes if cause.needs or cause.by_recorded_steps}
        self._run = run
        self._progress = progress
        self._began = time.monotonic()
        self._size = 0
        self._recorded = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        # What was said, in this order, and how long after the first training step.
        self.said: dict[str, float] = {}

    def __enter__(self) -> EarlyProofs:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def first(self) -> float | None:
        """Seconds from the first training step to the first proof."""
        return min(self.said.values(), default=None)

    def withdraw(self, verdict: Verdict) -> None:
        """Say which of them the verdict does not prove."""
        for identifier in self.said:
            judgement = verdict.judgements.get(identifier)
            if judgement is not None and judgement.status is not Status.PROVEN:
                now = judgement.status.value
                self._progress(
                    Announcement(f"withdrawn: {identifier} is {now}: {judgement.because}")
                )

    def look(self) -> None:
        """Judge what is recorded by now, if there is another recorded step."""
        directory = self._run.look
        size = _size(directory)
        if size == self._size:
            return
        self._size = size
        with Record.open(directory) as record:
            recorded = len(record.events("tape"))
            started = float(record.header.get("started", time.time()))
        if recorded == self._recorded or recorded < MIN_RECORDED_STEPS:
            return
        self._recorded = recorded
        by_hand = directory == self._run.observed_by_hand
        verdict = judge(self._causes, [evidence_of(directory)], Circumstances(by_hand=by_hand))
        for identifier in verdict.of(Status.PROVEN):
            if identifier in self._structural and identifier not in self.said:
                self.said[identifier] = time.time() - started
                sentence = self._sentence(identifier, verdict.judgements[identifier])
                self._progress(Announcement(sentence))

    def _sentence(self, identifier: str, judgement: Judgement) -> str:
        where, at = judgement.where, ""
        if where is not None and where.file is not None:
            line = "" if where.line is None else f":{where.line}"
            at = f", at {Path(where.file).name}{line}"
        seconds = time.monotonic() - self._began
        return f"proven after {seconds:.0f} s: {identifier}{at} (trials and the rest follow)"

    def _watch(self) -> None:
        with suppress(Exception):
            while not self._over.wait(POLL_SECONDS):
                # A record that has only just been begun cannot be read yet.
                with suppress(BadInput):
                    self.look()


def _size(directory: Path) -> int:
    try:
        return (directory / RECORD).stat().st_size
    except OSError:
        return 0
