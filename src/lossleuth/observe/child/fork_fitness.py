"""Whether a process in which a script has loaded its data and model may be forked.

A fork shares more than memory: where files are read on, sockets, memory that several processes
write to, and locks that threads hold which the fork does not have.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import threading
from collections.abc import Iterator, Set
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc/self")
STANDARD_STREAMS = frozenset({0, 1, 2})


def why_not_to_fork(ours: Set[int], threads: int) -> str | None:
    """Why a fork of this process would not do what the process itself does, if so.

    `ours` are file descriptors that the program knows nothing of; `threads` is how many torch
    computes with.
    """
    if signal.getsignal(signal.SIGCHLD) is not signal.SIG_DFL:
        return "it handles SIGCHLD"
    if threading.active_count() > 1:
        return f"{threading.active_count() - 1} other Python threads are running"
    if len(list((PROC / "task").iterdir())) > 1 and threads > 1:
        # OpenMP's threads are gone in a fork, and it waits for them. Other pools make new ones.
        return f"torch computes with {threads} threads"
    if any((task / "children").read_text().strip() for task in (PROC / "task").iterdir()):
        return "it has child processes"
    shared = next(_shared_memory(), None)
    if shared is not None:
        return f"it may write to memory that it shares: {shared}"
    for number, mode in open_files():
        if number in ours or number in STANDARD_STREAMS:
            continue
        if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
            return f"it has an open socket or pipe ({number})"
        if stat.S_ISREG(mode) and _access(number) == os.O_RDWR:
            return f"it has a file open for reading and writing ({number})"
    return None


def open_files() -> Iterator[tuple[int, int]]:
    """The numbers of open files, and what kind of file each is (`st_mode`)."""
    for number in [int(path.name) for path in (PROC / "fd").iterdir()]:
        # The one that lists them is closed by now.
        with suppress(OSError):
            yield number, os.fstat(number).st_mode


def part_from_parent() -> None:
    """After a fork: read on in every open file by ourselves."""
    for number, mode in list(open_files()):
        if stat.S_ISREG(mode) and number not in STANDARD_STREAMS and not _access(number):
            place = os.lseek(number, 0, os.SEEK_CUR)
            inheritable = os.get_inheritable(number)
            own = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
            os.lseek(own, place, os.SEEK_SET)
            os.dup2(own, number, inheritable)
            os.close(own)


def _access(number: int) -> int:
    """Whether a file is open for reading (0), writing or both."""
    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE


def _shared_memory() -> Iterator[str]:
    """What this process maps so that others see what it writes."""
    for line in (PROC / "maps").read_text(errors="replace").splitlines():
        parts = line.split(maxsplit=5)
        if parts[1].startswith("rw") and parts[1].endswith("s"):
            yield parts[5] if len(parts) > 5 else "anonymous"
