"""Watching from inside a script or a notebook, with one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from lossleuth.observe.child.watch import Watch
from lossleuth.observe.launch.program import Program
from lossleuth.observe.request import WatchRequest
from lossleuth.run_directory import dated_directory, free_directory, has_record


class Watching:
    """A watch that lasts until `stop`, the end of a `with` block, or the end of the process."""

    def __init__(self, watch: Watch, directory: Path) -> None:
        self._watch = watch
        self.directory = directory

    def stop(self) -> None:
        """Close the record and restore torch."""
        self._watch.finish({"how": "stop"})

    def __enter__(self) -> Watching:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def watch(*watched: Any, out: str | Path | None = None, activations: bool = False) -> Watching:
    """Record every training step of this process from now on.

    Model and optimizers may be given; what trains is found by itself, but an optimizer that is
    given is known from the first step on.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with watch(model, optimizer, out=tempfile.mkdtemp()) as watching:
    ...     for _ in range(3):
    ...         model(torch.ones(1, 2)).sum().backward()
    ...         optimizer.step()
    >>> from lossleuth.record.read import Record
    >>> Record.open(watching.directory).steps
    array([0, 1, 2])
    """
    directory = free_directory(Path(out) if out is not None else dated_directory(), has_record)
    program = Program(Path(sys.argv[0] or "interactive"), tuple(sys.argv[1:]))
    request = WatchRequest(str(directory), program.header(), os.getpid(), activations)
    started = Watch(request, main=True)
    started.start()
    for thing in watched:
        started.adopt(thing)
    return Watching(started, directory)
