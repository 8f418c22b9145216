"""Runs a lossleuth command in its own process, reports its progress and ends it at its limit.

The protocol owns standard output, so nothing runs in the server itself: output goes to a file, and
a script that hangs, crashes or prints gigabytes costs one answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread

from lossleuth.process_tree import GRACE_SECONDS, end, start
from lossleuth.types.errors import BadInput

POLL_SECONDS = 0.1
# The last progress message is repeated this often, for clients that time out on silence.
HEARTBEAT_SECONDS = 5.0
# Limit on stdout and on stderr.
MAX_OUTPUT_BYTES = 16 << 20
# How long an interrupted command may take to clean up; less if nobody waits for it any more.
INTERRUPT_SECONDS, SHORT_INTERRUPT_SECONDS = 10.0, 1.0
MESSAGE_PREFIX = "lossleuth: "

ReportProgress = Callable[[str], Awaitable[None]]

# Ended when the server is asked to terminate.
_running: set[subprocess.Popen[bytes]] = set()


class CommandResult(NamedTuple):
    """Exit code, stdout and stderr of a command."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def reason(self) -> str:
        """The command's own error message, else the last line of stderr."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        for line in reversed(lines):
            if line.startswith(MESSAGE_PREFIX):
                return line.removeprefix(MESSAGE_PREFIX)
        last = f" ({lines[-1][:300]})" if lines else ""
        return f"expected an answer, found exit code {self.code}{last}: run it by hand to see why"

    @property
    def answer(self) -> Any:
        """The JSON it printed; BadInput with the reason if it printed none."""
        try:
            return json.loads(self.stdout)
        except ValueError:
            raise Refused(self.reason) from None


class Refused(BadInput):
    """A BadInput whose message another lossleuth process has already worded."""

    def __init__(self, sentence: str) -> None:
        Exception.__init__(self, sentence)


async def run_command(
    module: str,
    arguments: Sequence[str],
    *,
    root: Path,
    limit: float,
    report_progress: ReportProgress,
    remedy: str = "give a larger budget",
    grace: float = INTERRUPT_SECONDS,
) -> CommandResult:
    """Run `python -m module arguments` in `root`; BadInput if it exceeds a limit."""
    # -P: a file called torch.py in the directory is the user's, not ours to import.
    command = [sys.executable, "-P", "-m", module, *arguments]
    with tempfile.TemporaryDirectory(prefix="lossleuth-command-") as folder:
        stdout, stderr = Path(folder, "stdout"), Path(folder, "stderr")
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = start(
                command,
                folder=root,
                streams=(subprocess.DEVNULL, out, err),
                grace=GRACE_SECONDS,
            )
        _running.add(process)
        exceeded, time_to_end = None, SHORT_INTERRUPT_SECONDS
        try:
            exceeded = await _wait(process, stdout, stderr, limit, report_progress)
            time_to_end = grace
        finally:
            await _end(process, time_to_end)
            _running.discard(process)
        if exceeded is not None:
            raise BadInput(f"an answer within {limit:.0f} s", exceeded, remedy)
        return CommandResult(
            process.returncode, stdout.read_bytes(), stderr.read_text(errors="replace")
        )


def end_all() -> None:
    """End every running command, before the server exits."""
    for process in list(_running):
        end(process, SHORT_INTERRUPT_SECONDS)


async def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """End it, even if this request was cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(end, process, grace)


async def _wait(
    process: subprocess.Popen[bytes],
    stdout: Path,
    stderr: Path,
    limit: float,
    report_progress: ReportProgress,
) -> str | None:
    """Pass on its progress until it ends; which limit it exceeded, or None."""
    began = last_report = time.monotonic()
    sentence, position = "starting", 0
    while process.poll() is None:
        await anyio.sleep(POLL_SECONDS)
        now = time.monotonic()
        if now - began > limit:
            return "none, so it was ended"
        if max(stdout.stat().st_size, stderr.stat().st_size) > MAX_OUTPUT_BYTES:
            return f"more than {MAX_OUTPUT_BYTES >> 20} MB of output, so it was ended"
        sentences, position = _sentences(stderr, position)
        for sentence in sentences:
            await report_progress(sentence)
        if sentences:
            last_report = now
        elif now - last_report > HEARTBEAT_SECONDS:
            last_report = now
            await report_progress(sentence)
    return None


def _sentences(stderr: Path, position: int) -> tuple[list[str], int]:
    """Progress messages after that position in the file, and the new position."""
    with stderr.open("rb") as stream:
        stream.seek(position)
        *lines, _ = stream.read().split(b"\n")
    sentences = []
    for line in lines:
        position += len(line) + 1
        try:
            sentences.append(str(json.loads(line)["progress"]))
        except (ValueError, TypeError, KeyError):
            continue
    return sentences, position
