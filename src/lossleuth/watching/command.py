"""`lossleuth watch`: run a script to its end, record it, and summarise the record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lossleuth.observe.launch.program import Ending, Program, Running, leave_like, save_ending
from lossleuth.observe.request import WatchRequest
from lossleuth.record.read import Record
from lossleuth.run_directory import RunDirectory, dated_directory, free_directory, has_record
from lossleuth.types.errors import BadInput
from lossleuth.watching.alarms import alarms
from lossleuth.watching.panel import Panel

REFRESH_SECONDS = 0.5


def watch_script(
    script: Path,
    arguments: Sequence[str],
    out: Path | None,
    *,
    activations: bool = False,
    tape: Sequence[int] = (),
    finished: Callable[[Path], None] = lambda _: None,
) -> None:
    """Run and record the script; exit with its exit code or signal.

    `finished` is called with the record's directory before that, where there is a step in it.
    """
    program = Program(script, tuple(arguments))
    program.check()
    directory = free_directory(out or dated_directory(), has_record)
    request = WatchRequest(
        str(directory.resolve()),
        program.header(),
        process=0,
        activations=activations,
        tape=tuple(tape),
    )
    ending = _run(program, request)
    save_ending(directory, ending)
    for sentence in summary(directory, ending):
        print(f"lossleuth: {sentence}", file=sys.stderr)
    steps = _steps(directory)
    if steps:
        finished(directory)
    if ending.code == 0 and not steps:
        sys.exit(2)
    leave_like(ending)


def summary(directory: Path, ending: Ending) -> list[str]:
    """What to tell the user at the end of the run."""
    try:
        record = Record.open(directory)
    except BadInput:
        return [f"{ending.sentence} before torch was imported: nothing was recorded"]
    processes = RunDirectory(directory).process_records()
    if not len(record.steps) and not processes:
        return [
            f"{ending.sentence} after {ending.seconds:.1f} s without a training step: expected "
            "a backward pass and an update of parameters, found none: give the script that trains"
        ]
    sentences = [f"{len(record.steps)} steps recorded in {directory} ({ending.sentence})"]
    if processes:
        sentences.append(f"{len(processes)} child processes were also recorded")
    sentences += alarms(record)
    return sentences


def _steps(directory: Path) -> int:
    try:
        return len(Record.open(directory).steps) + len(RunDirectory(directory).process_records())
    except BadInput:
        return 0


def _run(program: Program, request: WatchRequest) -> Ending:
    running = Running(program, request)
    with Panel(Path(request.directory)) as panel:
        while True:
            ending = running.wait(REFRESH_SECONDS if panel.shown else None)
            if ending is not None:
                return ending
            panel.draw()
