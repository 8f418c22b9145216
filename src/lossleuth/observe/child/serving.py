"""A process that is forked for every request: lines of JSON in, lines of JSON out."""

from __future__ import annotations

import json
import os
import select
from contextlib import suppress
from typing import Any

POLL_SECONDS = 0.02


class Requests:
    """Lines that arrive at a file descriptor, without blocking."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._read = b""
        self.ended = False

    def next(self, seconds: float | None) -> dict[str, Any] | None:
        """The next request, or None if none arrives within this many seconds."""
        while b"\n" not in self._read:
            if not select.select([self._number], [], [], seconds)[0]:
                return None
            piece = os.read(self._number, 65536)
            if not piece:
                self.ended = True
                return None
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        request: dict[str, Any] = json.loads(line)
        return request


def serve(requests: Requests, answers: int) -> dict[str, Any] | None:
    """Fork for each request: None when they end; in a forked process, its request."""
    running: set[int] = set()
    while not requests.ended:
        request = requests.next(POLL_SECONDS if running else None)
        if request is not None:
            child = os.fork()
            if not child:
                return request
            running.add(child)
            answer(answers, {"started": child})
        for child in list(running):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                running.remove(child)
                answer(answers, {"ended": child, "code": os.waitstatus_to_exitcode(status)})
    return None


def answer(answers: int, said: dict[str, Any]) -> None:
    """Send one line, if anybody still listens."""
    with suppress(BrokenPipeError):
        os.write(answers, json.dumps(said).encode() + b"\n")


def redirect_output(path: str) -> None:
    """Append what is printed from now on to a file."""
    output = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
