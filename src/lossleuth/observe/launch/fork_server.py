"""A process with a script's imports already loaded, forked for every run of the script.

Forking it saves the seconds that torch and a model library take to import. It is used only where
that cannot change what the script does: on Linux, without GPU support in torch (which does not
survive a fork), and if the script sets no environment variable that an import may read.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lossleuth.observe.import_list import Imports
from lossleuth.observe.launch.fork_channel import ForkChannel
from lossleuth.process_tree import kill, start

# How the names of folders begin into which runs write; they are removed with the runs.
SCRATCH = "lossleuth-"


class ForkServer(ForkChannel):
    """Starts the server and requests runs; the server exits when this end is closed."""

    def __init__(self, script: Path, imports: Imports, environment: Mapping[str, str]) -> None:
        super().__init__()
        # Runs that are forked have their scratch folders in here: it is removed with the server.
        self.scratch = tempfile.mkdtemp(prefix=SCRATCH)
        self._process = start(
            [sys.executable, "-m", "lossleuth.observe.child.fork_server_process"],
            environment=environment,
            streams=(subprocess.PIPE, subprocess.PIPE, subprocess.DEVNULL),
            scratch=self.scratch,
        )
        self._ask({"script": str(script), "modules": imports.library, "own": imports.own})

    @property
    def is_alive(self) -> bool:
        """Whether the server runs."""
        return self._process.poll() is None

    @property
    def _incoming(self) -> int | None:
        stream = self._process.stdout
        return None if stream is None or stream.closed else stream.fileno()

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def close(self) -> None:
        """End the server with everything that it has forked."""
        kill(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
