"""A process in which a script has loaded its data and built its model, forked for every trial.

It stands where the script has made its last optimizer or schedule before the first training step.
Trials with the same seeds go on from there, so that each costs little more than its steps.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lossleuth.observe.launch.fork_channel import READY, ForkChannel
from lossleuth.process_tree import Started, kill

# A further script is loaded if so many times the memory of one is available.
TIMES_MEMORY = 2.0


class LoadedScript(ForkChannel):
    """Starts the process and requests runs; it exits when this end is closed."""

    def __init__(self, begin: Callable[[str], Started], scratch: str, patience: float) -> None:
        """`begin` starts the process, given the name of the socket at which we wait for it."""
        super().__init__()
        # What it has written until now, which its forks read.
        self.scratch = scratch
        self._until = time.monotonic() + patience
        name = f"lossleuth-{secrets.token_hex(16)}"
        # Without a place in the file system, which the process may see another part of.
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{name}")
        self._listener.listen(1)
        self._listener.setblocking(False)
        self._connection: socket.socket | None = None
        self.process = begin(name)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    @property
    def is_loading(self) -> bool:
        """Whether it has not come to its first training step yet."""
        self._listen(0.0)
        late = time.monotonic() > self._until
        return self._state is None and self.is_alive and not late

    @property
    def refusal(self) -> str | None:
        """Why it cannot be forked, if so."""
        if self._state == READY:
            return None if self.is_alive else "it has ended"
        return self._state or "it did not come to its first training step"

    @property
    def _incoming(self) -> int | None:
        if self._connection is None and self._listener.fileno() >= 0:
            self._accept()
        return None if self._connection is None else self._connection.fileno()

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            asked = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            _, user, _ = struct.unpack("3i", asked)
            if user != os.getuid():
                connection.close()
                return
            connection.setblocking(True)
            self._connection = connection

    def _send(self, line: bytes) -> None:
        if self._connection is not None:
            self._connection.sendall(line)

    def close(self) -> None:
        """End the process with everything that it has forked."""
        kill(self.process)
        self._listener.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def has_memory_beside(loaded: LoadedScript) -> bool:
    """Whether there is memory for one more such process; where nobody knows, there is not."""
    try:
        pages = int(Path(f"/proc/{_innermost(loaded.process.pid)}/statm").read_text().split()[1])
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable"))
    except (OSError, ValueError, IndexError, StopIteration):
        return False
    return available * 1024 > TIMES_MEMORY * pages * os.sysconf("SC_PAGE_SIZE")


def _innermost(guardian: int) -> int:
    """The process below a guardian."""
    children = Path(f"/proc/{guardian}/task/{guardian}/children").read_text().split()
    return int(children[0]) if children else guardian
