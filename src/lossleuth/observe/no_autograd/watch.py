"""Watching a program that trains without autograd: its steps, some of them recorded in full."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection
from typing import Any

from torch import Tensor

from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.observe.no_autograd.loop_finder import HandLoop
from lossleuth.observe.seeds import shift_seeds
from lossleuth.observe.session import Session
from lossleuth.observe.stop import Limit
from lossleuth.probes.analysis import RunMemory
from lossleuth.probes.run import look_at_hand_step
from lossleuth.record.write import RecordWriter
from lossleuth.tape.capture.compiler_off import disable_compiler
from lossleuth.tape.window import Window

# Name at most this many tensors of a list, by index.
MAX_NAMED = 1000


class ByHand:
    """Watches from the import of torch on, and writes a record if there are steps."""

    def __init__(
        self,
        open_writer: Callable[[], RecordWriter],
        tape: Collection[int],
        limit: Limit,
        session: Session,
        until: float = math.inf,
    ) -> None:
        self._open_writer = open_writer
        self._session = session
        self._writer: RecordWriter | None = None
        self._memory = RunMemory(until=until)
        self._loop = HandLoop(tape, limit, self._look, self._write, session)

    def start(self, seed_shift: int | None) -> None:
        """See every operation from now on."""
        session = self._session
        if seed_shift is not None:
            shift_seeds(seed_shift, session.replace)
        # A dispatch mode is always active, which torch.compile does not accept.
        session.on_close(disable_compiler())
        self._loop.__enter__()  # type: ignore[no-untyped-call]  # untyped base
        session.on_close(self._loop.leave)

    def finish(self, reason: dict[str, Any]) -> None:
        """Called at the end of the run."""
        if self._writer is not None:
            summary: dict[str, Any] = {"steps": self._loop.steps}
            if self._session.failures.count:
                summary["failures"] = self._session.failures.sentence()
            self._writer.end(reason | summary)

    def _write(self, kind: str, data: dict[str, Any]) -> None:
        if self._writer is None:
            self._writer = self._open_writer()
        if kind == "step":
            self._writer.step(data, None)
        else:
            self._writer.event(kind, data)

    def _look(self, window: Window) -> RecordedStep:
        return look_at_hand_step(window, names_in_script, self._memory)


def names_in_script(window: Window) -> dict[int, str]:
    """The script's names for the tensors of a recorded step."""
    script = sys.modules.get("__main__")
    names: dict[int, str] = {}
    for name, value in list(vars(script).items()) if script is not None else ():
        _name(names, name, value)
        if not isinstance(value, type) and hasattr(value, "__dict__"):
            for key, item in list(vars(value).items()):
                _name(names, f"{name}.{key}", item)
    return {n: names[id(t)] for n, t in window.tape.leaves.items() if id(t) in names}


def _name(names: dict[int, str], name: str, value: Any) -> None:
    """Name a tensor, or those in a dict or a list."""
    if isinstance(value, Tensor):
        names.setdefault(id(value), name)
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            if isinstance(item, Tensor):
                names.setdefault(id(item), f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value[:MAX_NAMED]):
            if isinstance(item, Tensor):
                names.setdefault(id(item), f"{name}[{number}]")
