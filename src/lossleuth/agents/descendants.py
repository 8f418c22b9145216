"""Ending a process with everything that it started, also where that has sessions of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Ask a process to end, as Ctrl-C does; what is left of it after `patience` s is killed."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
    if process.poll() is None:
        # The process first: it could start others.
        _kill([process.pid, *descendants(process.pid)])
    # Those of its own session that outlived it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def descendants(pid: int) -> list[int]:
    """All processes that stem from this one, nearest first; none where that is not told."""
    parents = _parents()
    found, row = list[int](), [pid]
    while row:
        row = [child for child, parent in parents.items() if parent in row]
        found += row
    return found


def _parents() -> dict[int, int]:
    known = {}
    for entry in PROCESSES.glob("[0-9]*/stat"):
        # Those that end while we look are gone.
        with suppress(OSError, ValueError, IndexError):
            # The name may hold anything, and is the last thing in brackets.
            fields = entry.read_text(errors="replace").rpartition(")")[2].split()
            known[int(entry.parent.name)] = int(fields[1])
    return known


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
