"""A small process between us and a program that we start: nothing of the program outlives us.

python -I -S guardian.py PARENT SCRATCH GRACE KIND COMMAND ...

It is the program's parent. On Linux it also adopts what the program's children leave behind, so
that sessions of their own and double forks hide nothing. It kills all of them when the program
ends, when it is told to end (SIGTERM), and when its own parent is gone, whatever killed that one.
Elsewhere it kills the program's process group. It uses nothing but a few modules of Python's
library, so that it starts in about 10 ms of processor time.
"""

from __future__ import annotations

import ctypes
import io
import os
import select
import signal
import sys
import time
from contextlib import suppress

# How often it looks whether its parent is still there.
POLL_SECONDS = 0.25
# How long it tries to end everything: a process that waits for a broken disk cannot be killed.
KILL_SECONDS = 5.0
_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_HEARD = (*_ENDING, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2)


def guard(parent: int, scratch: str = "", grace: float = 0.0, *, transparent: bool = False) -> None:
    """Fork. The child returns and becomes the program; the guardian never returns.

    When it has to end a program that runs, the program gets SIGTERM, and SIGKILL `grace` seconds
    later. In the end the folder `scratch` is removed.

    A `transparent` guardian hands on all signals, leaves the program in the process group of
    `parent`, and lets live what it leaves behind when it ends by itself.
    """
    guardian, group = os.getpid(), os.getpgid(parent) if transparent else 0
    _prctl(_SET_CHILD_SUBREAPER, 1)
    # Until it can be handled, a signal waits.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    program = os.fork()
    if not program:
        # It must not outlive its guardian either, which may be gone already.
        _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != guardian:
            os._exit(1)
        with suppress(OSError):
            if transparent:
                os.setpgid(0, group)
            else:
                os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    status = None
    try:
        status = _Guardian(parent, program, transparent=transparent).watch(grace)
    finally:
        if scratch:
            discard(scratch)
        _leave_like(status)


class _Guardian:
    """Watches over a program until it ends or has to end."""

    def __init__(self, parent: int, program: int, *, transparent: bool) -> None:
        self._parent, self._program, self._transparent = parent, program, transparent
        self._status: int | None = None
        # Whether somebody else than the program wants it to end.
        self._told = False
        self._signals, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in _HEARD:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)

    def watch(self, grace: float) -> int | None:
        """Wait, end everything, and return the program's status."""
        while self._status is None and not self._must_end():
            self._reap()
        if self._status is None and grace:
            self._send(signal.SIGTERM)
            until = time.monotonic() + grace
            while self._status is None and time.monotonic() < until:
                select.select([self._signals], [], [], 0.05)
                self._reap()
        by_itself = self._status is not None and os.WIFEXITED(self._status)
        if not (self._transparent and by_itself and not self._told):
            self._kill_all()
        return self._status

    def _must_end(self) -> bool:
        """Whether it has to end, after waiting a little for news."""
        news = select.select([self._signals], [], [], POLL_SECONDS)[0]
        for number in os.read(self._signals, 64) if news else b"":
            if number in _ENDING:
                self._told = True
            if number == signal.SIGTERM and not self._transparent:
                return True
            if number != signal.SIGCHLD:
                self._send(number)
        return os.getppid() != self._parent

    def _send(self, number: int) -> None:
        # The program's number is its own until it is reaped here.
        if self._status is None:
            with suppress(OSError):
                os.kill(self._program, number)

    def _reap(self) -> None:
        """Take note of everything that has ended."""
        with suppress(ChildProcessError):
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if not ended:
                    break
                if ended == self._program:
                    self._status = status

    def _kill_all(self) -> None:
        until = time.monotonic() + KILL_SECONDS
        if not self._transparent:
            with suppress(OSError):
                os.killpg(self._program, signal.SIGKILL)
        self._send(signal.SIGKILL)
        while True:
            left = descendants(os.getpid())
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if (not left and self._status is not None) or time.monotonic() > until:
                break
            time.sleep(0.01)


def descendants(pid: int) -> list[int]:
    """All processes that stem from this one, nearest first; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents().items():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found[1:]


def _parents() -> dict[int, int]:
    known = {}
    with suppress(OSError):
        for name in [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]:
            # Those that end while we look are gone.
            with (
                suppress(OSError, ValueError, IndexError),
                io.open_code(f"/proc/{name}/stat") as it,
            ):
                # The name may hold anything, and is the last thing in brackets.
                known[int(name)] = int(it.read().rpartition(b")")[2].split()[1])
    return known


def discard(folder: str) -> None:
    """Delete a folder, even the unreadable ones that overlays leave behind."""
    import pathlib
    import shutil

    def make_writable(function: object, path: str, _error: object) -> None:
        with suppress(OSError):
            pathlib.Path(path).chmod(0o700)
            if callable(function):
                function(path)

    shutil.rmtree(folder, onerror=make_writable)


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _leave_like(status: int | None) -> None:
    """Exit as the program did: same exit code, same signal."""
    code = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    if code < 0:
        import resource

        # The program has left a core file, if one was wanted.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _main() -> None:
    parent, scratch, grace, kind, *command = sys.argv[1:]
    guard(int(parent), scratch, float(grace), transparent=kind == "transparent")
    try:
        os.execv(command[0], command)
    finally:
        os._exit(127)


if __name__ == "__main__":
    _main()
