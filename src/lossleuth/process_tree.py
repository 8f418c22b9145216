"""Ending a process with everything that it started, also where that has sessions of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

PROCESSES = Path("/proc")


class Started(Protocol):
    """A process that leads a session of its own, as `subprocess.Popen` shows it."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""

    def wait(self, timeout: float) -> int:
        """Its exit code, or `subprocess.TimeoutExpired`."""


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Ask a process to end, as Ctrl-C does; what is left of it after `patience` s is killed."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
    kill(process)


def kill(process: Started) -> None:
    """Kill a process that leads a session, with everything that it started, and wait for it.

    Of one that has ended by itself, what is left in its session is killed: its number may be
    somebody else's by now, so its children are not looked for.
    """
    if process.poll() is None:
        _kill([process.pid, *descendants(process.pid)])
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)


def descendants(pid: int) -> list[int]:
    """All processes that stem from this one, nearest first; none where there is no /proc."""
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
