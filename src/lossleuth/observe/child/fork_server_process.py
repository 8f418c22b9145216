"""The fork server: imports the listed modules, then forks a run for every request.

python -m lossleuth.observe.child.fork_server_process

Requests come as lines of JSON on standard input.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lossleuth.guardian import guard
from lossleuth.observe.child.serving import Requests, answer, redirect_output, serve
from lossleuth.observe.import_list import strangers


class _Run(NamedTuple):
    """The job of a forked process."""

    arguments: list[str]
    environment: dict[str, str]
    output: str
    scratch: str


def main() -> None:
    """Serve until standard input ends; in a forked process, run the script."""
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    requests = Requests(0)
    first = requests.next(None)
    if first is None:
        return
    state = _prepare(Path(first["script"]), first["modules"], set(first["own"]))
    answer(answers, {"state": state})
    server = os.getpid()
    request = serve(requests, answers)
    if request is not None:
        run = _Run(**request)
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


def _become(run: _Run, nothing: int) -> None:
    """Be the process that `python -m lossleuth.observe.child.run SCRIPT` starts."""
    redirect_output(run.output)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(run.environment)
    sys.argv = ["child", *run.arguments]
    from lossleuth.observe.child.run import main as be_the_child

    be_the_child()


if __name__ == "__main__":
    main()
