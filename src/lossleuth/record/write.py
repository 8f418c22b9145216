"""Write a record from inside a training run: cheaply, and without disturbing it.

Each frame is handed to the operating system whole and at once, so that what was acknowledged
survives the death of the process. Whatever goes wrong here costs frames, which are counted, and
never the run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from numpy.typing import NDArray

from lossleuth.record import frames, payloads, values
from lossleuth.record.claim import claim
from lossleuth.record.frames import Kind
from lossleuth.record.shortfall import Shortfall

_SECONDS_BETWEEN_LOOKS = 1.0

P = ParamSpec("P")


def _guarded(
    method: Callable[Concatenate[RecordWriter, P], None],
) -> Callable[Concatenate[RecordWriter, P], None]:
    """Keep internal errors out of the training, and forked children out of the log."""

    @functools.wraps(method)
    def call(writer: RecordWriter, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if writer._process != os.getpid():
            return
        try:
            with writer._lock:
                method(writer, *args, **kwargs)
        except Exception as error:
            writer._miss(_in_words(error))

    return call


class RecordWriter:
    """Appends frames to the log of one run.

    No method raises, a full disk or a deleted directory included; `trouble` says afterwards what
    the record misses. In a forked child every method does nothing.

    >>> import tempfile
    >>> import numpy as np
    >>> folder = Path(tempfile.mkdtemp())
    >>> writer = RecordWriter.create(folder / "run", {"script": "train.py"}, warn=print)
    >>> writer.parameters(["wte.weight"], [1024], ["gradient_norm", "norm"])
    >>> writer.step({"step": 0, "loss": 6.9}, np.array([[0.5, 22.6]]))
    >>> writer.step({"step": 1, "loss": float("nan")}, None)
    >>> writer.end({"exit": 0})
    >>> writer.lost, writer.trouble
    (0, None)
    """

    def __init__(self, directory: Path, descriptor: int, warn: Callable[[str], None]) -> None:
        self.directory = directory
        self._shortfall = Shortfall(directory, warn)
        self._descriptor: int | None = descriptor
        self._process = os.getpid()
        # Reentrant: a signal handler may record the end while a step is being written.
        self._lock = threading.RLock()
        self._table: payloads.Table | None = None
        self._last_step = -1
        # What the frames that follow would be misread without; written before the next one.
        self._owed = {"opening": frames.OPENING}
        # How many frames were lost since the last that was written.
        self._gap = 0
        # A boundary of frames at or before the end of the log.
        self._whole = 0
        self._torn = False
        self._next_look = 0.0
        _writers.add(self)

    @classmethod
    def create(
        cls, directory: Path, header: Mapping[str, Any], warn: Callable[[str], None]
    ) -> RecordWriter:
        """Make the run directory and begin its log; BadInput if nothing can be written there.

        A record is never overwritten: where one stands the directory becomes `<name>-2` and so on.
        """
        writer = cls(*claim(Path(directory)), warn)
        try:
            frame = frames.encode(Kind.HEADER, writer._json(header))
        except Exception as error:
            writer._shortfall.leave_out(f"the header ({_in_words(error)})")
            frame = frames.encode(Kind.HEADER, b"{}")
        writer._owed["header"] = frame
        writer._pay(writer._descriptor)
        return writer

    @_guarded
    def parameters(
        self, names: Sequence[str], sizes: Sequence[int], columns: Sequence[str]
    ) -> None:
        """Declare the rows and columns of the matrices of the steps that follow."""
        # Should this fail, no later matrix may be read by the table before it.
        self._table = None
        table = payloads.Table(tuple(names), tuple(map(int, sizes)), tuple(columns))
        self._owed["table"] = frames.encode(Kind.PARAMETERS, payloads.encode_table(table))
        self._table = table
        self._pay(self._descriptor)

    @_guarded
    def step(self, scalars: Mapping[str, Any], matrix: NDArray[Any] | None) -> None:
        """Append a step: `scalars["step"]` is its number, else it is one after the last.

        The matrix has a row for each declared parameter and a column for each declared column.
        """
        self._append(self._step(scalars, matrix))

    @_guarded
    def steps(self, found: Sequence[tuple[Mapping[str, Any], NDArray[Any] | None]]) -> None:
        """Append several steps in one go, each as `step` does."""
        ready: list[bytes] = []
        for scalars, matrix in found:
            try:
                ready.append(self._step(scalars, matrix))
            except Exception as error:
                self._miss(_in_words(error))
        self._append(*ready)

    @_guarded
    def event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Append something that happened."""
        self._append(self._event(kind, data))

    @_guarded
    def end(self, reason: Mapping[str, Any]) -> None:
        """Append why the run ended, and close the log."""
        self._next_look = 0.0
        try:
            self._append(frames.encode(Kind.END, self._json(reason)))
        finally:
            self.close()

    def close(self) -> None:
        """Close the log. Without `end`, readers report that the run ended abnormally."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    @property
    def lost(self) -> int:
        """How many frames could not be written."""
        return self._shortfall.lost

    @property
    def unrecorded(self) -> int:
        """How many values and matrices had to be left out of frames that were written."""
        return self._shortfall.unrecorded

    @property
    def trouble(self) -> str | None:
        """One sentence on what the record lacks and why; None if it is complete."""
        return self._shortfall.sentence

    def _json(self, value: Mapping[str, Any]) -> bytes:
        if not isinstance(value, Mapping):
            raise TypeError(f"a mapping was expected, found {type(value).__name__}")
        encoded, left_out = values.encode_json(value)
        for what in left_out:
            self._shortfall.leave_out(what)
        return encoded

    def _step(self, scalars: Mapping[str, Any], matrix: NDArray[Any] | None) -> bytes:
        number = payloads.step_number(scalars.get("step"))
        self._last_step = self._last_step + 1 if number is None else number
        parts = payloads.step_parts(self._last_step, self._json(scalars), self._matrix(matrix))
        return frames.encode(Kind.STEP, *parts)

    def _event(self, kind: str, data: Mapping[str, Any]) -> bytes:
        named = b'{"kind":' + values.encode_json(str(kind))[0] + b',"data":'
        return frames.encode(Kind.EVENT, named, self._json(data), b"}")

    def _matrix(self, matrix: NDArray[Any] | None) -> bytes:
        if matrix is None:
            return b""
        try:
            if self._table is None:
                raise ValueError("a matrix whose parameters were not declared")
            return payloads.matrix_bytes(matrix, self._table)
        except ValueError as error:
            self._shortfall.leave_out(str(error))
            return b""

    def _append(self, *ready: bytes) -> None:
        """Write frames after what must come before them; else count them as lost."""
        if time.monotonic() >= self._next_look and self._descriptor is not None:
            self._look(self._descriptor)
        descriptor = self._descriptor
        if descriptor is None:
            self._miss("it came after the end", len(ready))
        elif not (self._pay(descriptor) and self._write(descriptor, b"".join(ready))):
            self._miss(None, len(ready))

    def _pay(self, descriptor: int | None) -> bool:
        """Write what must come first: the opening, the header, a table. False if that failed."""
        if descriptor is None:
            return False
        for key in tuple(self._owed):
            if not self._write(descriptor, self._owed[key]):
                return False
            del self._owed[key]
        return True

    def _write(self, descriptor: int, data: bytes) -> bool:
        """Write all of `data` or nothing; note a gap before it."""
        begun = self._whole > len(frames.OPENING)
        gap, self._gap = (self._gap, 0) if begun else (0, self._gap)
        if gap:
            data = self._event("lost", {"frames": gap}) + data
        start, written = self._whole, 0
        try:
            if self._torn:
                self._heal(descriptor, start)
            written = os.write(descriptor, data)
            while written < len(data):
                written += os.write(descriptor, data[written:])
            # Not start + len: a signal handler may have written a frame meanwhile.
            self._whole = os.lseek(descriptor, 0, os.SEEK_CUR)
        except BaseException as error:
            self._gap += gap
            self._torn = True
            with contextlib.suppress(OSError):
                if isinstance(error, OSError):
                    os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                self._heal(descriptor, start)
            if not isinstance(error, OSError):
                raise
            self._shortfall.explain(error.strerror or str(error))
            return False
        return True

    def _heal(self, descriptor: int, start: int) -> None:
        """Truncate the log after the last whole frame; `start` is a frame boundary."""
        size = os.fstat(descriptor).st_size
        whole = start + frames.scan(os.pread(descriptor, max(0, size - start), start)).end
        if whole < size:
            os.ftruncate(descriptor, whole)
        self._whole = whole
        self._torn = False

    def _look(self, descriptor: int) -> None:
        """Once a second: is the log still there, and is it what we wrote?"""
        self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        # Before the size, because a signal handler may write between the two.
        whole = self._whole
        found = os.fstat(descriptor)
        if found.st_nlink == 0:
            self._shortfall.gone("was deleted during the run")
            self.close()
        elif found.st_size < whole:
            self._shortfall.gone("was cut short by another program")
            self.close()
        elif found.st_size > whole:
            self._heal(descriptor, whole)

    def _miss(self, why: str | None, count: int = 1) -> None:
        """Count frames that were lost, and note the gap before the next one."""
        self._gap += count
        self._shortfall.miss(why, count)


def _in_words(error: Exception) -> str:
    """An error as text, even if its `str` fails."""
    try:
        return f"{type(error).__name__}: {str(error)[:200]}"
    except Exception:
        return type(error).__name__


_writers: weakref.WeakSet[RecordWriter] = weakref.WeakSet()


def _let_go_in_child() -> None:
    # Else a worker that outlives its parent would hold the parent's lock.
    for writer in _writers:
        writer.close()


os.register_at_fork(after_in_child=_let_go_in_child)
