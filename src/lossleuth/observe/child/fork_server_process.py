"""The fork server: imports the listed modules, then forks a run for every request.

python -m lossleuth.observe.child.fork_server_process

Requests come as lines of JSON on standard input.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lossleuth.guardian import guard
from lossleuth.observe.import_list import strangers

POLL_SECONDS = 0.02


class _Run(NamedTuple):
    """The job of a forked process."""

    arguments: list[str]
    environment: dict[str, str]
    output: str
    scratch: str


class _Requests:
    """Lines of standard input, without blocking."""

    def __init__(self) -> None:
        self._read = b""
        self.ended = False

    def next(self, seconds: float | None) -> dict[str, Any] | None:
        """The next request, or None if none arrives within this many seconds."""
        while b"\n" not in self._read:
            if not select.select([0], [], [], seconds)[0]:
                return None
            piece = os.read(0, 65536)
            if not piece:
                self.ended = True
                return None
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        request: dict[str, Any] = json.loads(line)
        return request


def main() -> None:
    """Serve until standard input ends; in a forked process, run the script."""
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    requests = _Requests()
    first = requests.next(None)
    if first is None:
        return
    state = _prepare(Path(first["script"]), first["modules"], set(first["own"]))
    _say(answers, {"state": state})
    server = os.getpid()
    run = _serve(requests, answers)
    if run is not None:
        os.close(answers)
        os.dup2(nothing, 0)
        guard(server, run.scratch)
        _become(run, nothing)


def _prepare(script: Path, modules: list[str], users: set[str]) -> str:
    """Import everything; "ready", or why no run may be forked from here."""
    sys.path[0] = str(script.resolve().parent)
    for name in modules:
        # A module that cannot be imported by name was created some other way, and will be again.
        with suppress(Exception):
            importlib.import_module(name)
    if "torch" in sys.modules:
        importlib.import_module("lossleuth.observe.patches.hooks")
    # None of this is garbage: spare the collectors of forked runs.
    gc.freeze()
    # Neither may the user's own be here already, nor a library's under a name of theirs.
    own = [name for name in strangers() if not name.startswith("lossleuth")]
    own += [name for name in sys.modules if name in users]
    return f"the user's own modules were imported: {own[:3]}" if own else "ready"


def _serve(requests: _Requests, answers: int) -> _Run | None:
    """Fork a run for each request: None at the end, the run in the forked process."""
    running: set[int] = set()
    while not requests.ended:
        request = requests.next(POLL_SECONDS if running else None)
        if request is not None:
            child = os.fork()
            if not child:
                return _Run(**request)
            running.add(child)
            _say(answers, {"started": child})
        for child in list(running):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                running.remove(child)
                _say(answers, {"ended": child, "code": os.waitstatus_to_exitcode(status)})
    return None


def _become(run: _Run, nothing: int) -> None:
    """Be the process that `python -m lossleuth.observe.child.run SCRIPT` starts."""
    output = os.open(run.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for number in (output, nothing):
        os.close(number)
    os.environ.clear()
    os.environ.update(run.environment)
    sys.argv = ["child", *run.arguments]
    from lossleuth.observe.child.run import main as be_the_child

    be_the_child()


def _say(answers: int, said: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):
        os.write(answers, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main()
