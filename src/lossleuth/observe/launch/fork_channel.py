"""Asking a process for forks of itself: the parent's end."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# The answer of a process that may be forked.
READY = "ready"
# How long it may take to fork.
FORK_SECONDS = 10.0


class Forked:
    """The guardian of a forked run, as `subprocess.Popen` would show it."""

    def __init__(self, channel: ForkChannel, pid: int) -> None:
        self._channel = channel
        self.pid = pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal, or None while it runs."""
        return self._channel.code_of(self.pid)

    def wait(self, timeout: float) -> int:
        """Its exit code; `subprocess.TimeoutExpired` if it takes longer."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("a forked run", timeout)
            time.sleep(0.01)
        return code


class ForkChannel(ABC):
    """Sends requests as lines of JSON, and keeps what is answered."""

    def __init__(self) -> None:
        self._read = b""
        self._codes: dict[int, int] = {}
        self._started: list[int] = []
        # None until it is ready, or has said why it never will be.
        self._state: str | None = None

    @property
    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the process at the other end runs."""

    @property
    @abstractmethod
    def _incoming(self) -> int | None:
        """The file descriptor of its answers; None while or where there is none."""

    @abstractmethod
    def _send(self, line: bytes) -> None:
        """Write a request; it may be lost if the process has ended."""

    def is_ready(self, wait: float = 0.0) -> bool:
        """Whether it may be forked, after waiting up to this many seconds."""
        until = time.monotonic() + wait
        while self._state is None and self.is_alive:
            left = until - time.monotonic()
            self._listen(max(0.0, left))
            if left <= 0:
                break
        return self._state == READY and self.is_alive

    def fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: Path,
        scratch: str = "",
    ) -> Forked | None:
        """A run of the script with these arguments, its output into that file; None if it fails.

        When it is over, the folder `scratch` is removed.
        """
        before = len(self._started)
        self._ask(
            {
                "arguments": list(arguments),
                "environment": dict(environment),
                "output": str(output.resolve()),
                "scratch": scratch,
            }
        )
        until = time.monotonic() + FORK_SECONDS
        while len(self._started) == before:
            if time.monotonic() > until or not self.is_alive:
                return None
            self._listen(0.2)
        return Forked(self, self._started[-1])

    def code_of(self, pid: int) -> int | None:
        """The exit code of a run; one that no longer has a parent counts as killed."""
        self._listen(0.0)
        if pid not in self._codes and not self.is_alive:
            return -9
        return self._codes.get(pid)

    def _ask(self, request: dict[str, Any]) -> None:
        with suppress(BrokenPipeError, ConnectionError):
            self._send(json.dumps(request).encode() + b"\n")

    def _listen(self, seconds: float) -> None:
        """Read what was answered."""
        number = self._incoming
        while number is not None and select.select([number], [], [], seconds)[0]:
            try:
                piece = os.read(number, 65536)
            except ConnectionError:
                return
            if not piece:
                return
            *lines, self._read = (self._read + piece).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            seconds = 0.0

    def _take(self, said: dict[str, Any]) -> None:
        if "state" in said:
            self._state = said["state"]
        elif "started" in said:
            self._started.append(said["started"])
        else:
            self._codes[said["ended"]] = said["code"]
