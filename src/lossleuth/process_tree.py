"""Starting a program under a guardian, and ending it with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Protocol

from lossleuth import guardian
from lossleuth.guardian import KILL_SECONDS, descendants

# What a command of ours gets to end in order what it has started.
GRACE_SECONDS = 3.0
Stream = int | IO[bytes] | None


class Started(Protocol):
    """A guardian, as `subprocess.Popen` shows it."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""

    def wait(self, timeout: float) -> int:
        """Its exit code, or `subprocess.TimeoutExpired`."""


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    streams: tuple[Stream, Stream, Stream] = (None, None, None),
    scratch: str = "",
    grace: float = 0.0,
    transparent: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command that ends with this process, whatever ends that; `guardian` says how.

    The process that is returned is the guardian. It exits as the command does. SIGTERM ends it
    with everything below it; SIGINT is handed on.
    """
    stdin, stdout, stderr = streams
    guarded = [*command]
    if os.name == "posix":
        settings = [scratch, str(grace), "transparent" if transparent else "private"]
        guarded = [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid()), *settings]
        guarded += command
    return subprocess.Popen(
        guarded,
        env=None if environment is None else dict(environment),
        cwd=folder,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        # Signals to our group are not for the guardian.
        start_new_session=not transparent,
        process_group=0 if transparent and os.name == "posix" else None,
    )


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Ask a command to end, as Ctrl-C does; what is left of it after `patience` s is killed."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience)
    kill(process)


def kill(process: Started) -> None:
    """Have a guardian end everything below it, and wait for it."""
    if process.poll() is not None:
        return
    _send([process.pid], signal.SIGTERM)
    try:
        process.wait(timeout=KILL_SECONDS + GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _send([*descendants(process.pid), process.pid], signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=KILL_SECONDS)


def _send(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """In this block, SIGTERM and SIGHUP unwind this process; its exit code is 128 and the signal.

    So it removes what it has written for itself. A second one ends it at once. What ignores or
    handles these signals already, such as a program that calls us, goes on doing so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    def restore() -> None:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)

    def leave(number: int, _frame: FrameType | None) -> None:
        restore()
        raise SystemExit(128 + number)

    for number in ours:
        signal.signal(number, leave)
    try:
        yield
    finally:
        restore()
