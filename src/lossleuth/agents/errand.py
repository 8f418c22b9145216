"""A command of ours in a process of its own: told about while it runs, ended at its limit.

Standard output is the protocol's, so nothing runs in the server itself: output goes to a file, and
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

from lossleuth.process_tree import end
from lossleuth.types.errors import BadInput

POLL_SECONDS = 0.1
# The same is told again after so long, for clients that give up on silence.
BEAT_SECONDS = 5.0
# What a command may write to either of its outputs.
MOST_OUTPUT = 16 << 20
# How long an interrupted command may take to tidy up; less where nobody waits for it any more.
PATIENCE, SHORT_PATIENCE = 10.0, 1.0
OURS = "lossleuth: "

Told = Callable[[str], Awaitable[None]]

# What is under way, for a server that is told to end.
_under_way: set[subprocess.Popen[bytes]] = set()


class Done(NamedTuple):
    """How a command ended: its exit code, what it printed, and what it told beside."""

    code: int
    output: bytes
    told: str

    @property
    def reason(self) -> str:
        """Why it could not be carried out, in its own words, else the end of what it told."""
        lines = [line.strip() for line in self.told.splitlines() if line.strip()]
        for line in reversed(lines):
            if line.startswith(OURS):
                return line.removeprefix(OURS)
        last = f" ({lines[-1][:300]})" if lines else ""
        return f"expected an answer, found exit code {self.code}{last}: run it by hand to see why"

    @property
    def answer(self) -> Any:
        """What it printed, as JSON; BadInput with its reason where it is none."""
        try:
            return json.loads(self.output)
        except ValueError:
            raise Refused(self.reason) from None


class Refused(BadInput):
    """A refusal that another process of ours has already put into words."""

    def __init__(self, sentence: str) -> None:
        Exception.__init__(self, sentence)


async def errand(
    module: str,
    arguments: Sequence[str],
    *,
    root: Path,
    limit: float,
    told: Told,
    remedy: str = "give a larger budget",
    patience: float = PATIENCE,
) -> Done:
    """Run `python -m module arguments` in `root`; BadInput where it is not over at the limit."""
    # -P: a file called torch.py in the directory is the user's, not ours to import.
    command = [sys.executable, "-P", "-m", module, *arguments]
    with tempfile.TemporaryDirectory(prefix="lossleuth-errand-") as folder:
        output, beside = Path(folder, "output"), Path(folder, "told")
        with output.open("wb") as out, beside.open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        _under_way.add(process)
        found, left = None, SHORT_PATIENCE
        try:
            found = await _wait(process, output, beside, limit, told)
            left = patience
        finally:
            await _end(process, left)
            _under_way.discard(process)
        if found is not None:
            raise BadInput(f"an answer within {limit:.0f} s", found, remedy)
        return Done(process.returncode, output.read_bytes(), beside.read_text(errors="replace"))


def end_all() -> None:
    """End what is under way; for a server that is told to end."""
    for process in list(_under_way):
        end(process, SHORT_PATIENCE)


async def _end(process: subprocess.Popen[bytes], patience: float) -> None:
    """End it, also where this request was cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(end, process, patience)


async def _wait(
    process: subprocess.Popen[bytes], output: Path, beside: Path, limit: float, told: Told
) -> str | None:
    """Tell what it tells until it is over; else what was found instead."""
    began = told_last = time.monotonic()
    sentence, position = "starting", 0
    while process.poll() is None:
        await anyio.sleep(POLL_SECONDS)
        now = time.monotonic()
        if now - began > limit:
            return "none, and ended it"
        if max(output.stat().st_size, beside.stat().st_size) > MOST_OUTPUT:
            return f"more than {MOST_OUTPUT >> 20} MB of output, and ended it"
        sentences, position = _sentences(beside, position)
        for sentence in sentences:
            await told(sentence)
        if sentences:
            told_last = now
        elif now - told_last > BEAT_SECONDS:
            told_last = now
            await told(sentence)
    return None


def _sentences(beside: Path, position: int) -> tuple[list[str], int]:
    """What was told of the progress since that position in the file, line by line."""
    with beside.open("rb") as stream:
        stream.seek(position)
        *lines, _ = stream.read().split(b"\n")
    found = []
    for line in lines:
        position += len(line) + 1
        try:
            found.append(str(json.loads(line)["progress"]))
        except (ValueError, TypeError, KeyError):
            continue
    return found, position
