"""A process with a script's imports already loaded, forked for every run of the script.

Forking it saves the seconds that torch and a model library take to import. It is used only where
that cannot change what the script does: on Linux, without GPU support in torch (which does not
survive a fork), and if the script sets no environment variable that an import may read.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lossleuth.observe.import_list import Imports
from lossleuth.process_tree import kill, start

# The server's answer once its imports are done.
READY = "ready"
# How the names of folders begin into which runs write; they are removed with the runs.
SCRATCH = "lossleuth-"


class Forked:
    """The guardian of a forked run, as `subprocess.Popen` would show it."""

    def __init__(self, fork_server: ForkServer, pid: int) -> None:
        self._fork_server = fork_server
        self.pid = pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal, or None while it runs."""
        return self._fork_server.code_of(self.pid)

    def wait(self, timeout: float) -> int:
        """Its exit code; `subprocess.TimeoutExpired` if it takes longer."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("a forked run", timeout)
            time.sleep(0.01)
        return code


class ForkServer:
    """Starts the server and requests runs; the server exits when this end is closed."""

    def __init__(self, script: Path, imports: Imports, environment: Mapping[str, str]) -> None:
        # Runs that are forked have their scratch folders in here: it is removed with the server.
        self.scratch = tempfile.mkdtemp(prefix=SCRATCH)
        self._process = start(
            [sys.executable, "-m", "lossleuth.observe.child.fork_server_process"],
            environment=environment,
            streams=(subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL),
            scratch=self.scratch,
        )
        self._read = b""
        self._codes: dict[int, int] = {}
        self._started: list[int] = []
        self._state: str | None = None
        self._ask({"script": str(script), "modules": imports.library, "own": imports.own})

    def is_ready(self, wait: float = 0.0) -> bool:
        """Whether its imports are done, after waiting up to this many seconds."""
        until = time.monotonic() + wait
        while self._state is None and self._process.poll() is None:
            left = until - time.monotonic()
            self._listen(max(0.0, left))
            if left <= 0:
                break
        return self._state == READY and self._process.poll() is None

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
        until = time.monotonic() + 10
        while len(self._started) == before:
            if time.monotonic() > until or self._process.poll() is not None:
                return None
            self._listen(0.2)
        return Forked(self, self._started[-1])

    def code_of(self, pid: int) -> int | None:
        """The exit code of a run; one that no longer has a parent counts as killed."""
        self._listen(0.0)
        if pid not in self._codes and self._process.poll() is not None:
            return -9
        return self._codes.get(pid)

    def close(self) -> None:
        """End the server with everything that it has forked."""
        kill(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self, seconds: float) -> None:
        """Read the server's messages."""
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return
        number = self._process.stdout.fileno()
        while select.select([number], [], [], seconds)[0]:
            piece = os.read(number, 65536)
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
