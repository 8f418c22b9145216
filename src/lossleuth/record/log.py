"""A log on disk: its frames and their positions.

Only offsets are kept in memory, and the file is read at offsets rather than mapped: a mapped file
that is cut short kills its reader.
"""

from __future__ import annotations

import contextlib
import os
import stat
from array import array
from pathlib import Path
from typing import Any, NamedTuple

from lossleuth.record import frames, payloads, values
from lossleuth.record.claim import is_held
from lossleuth.record.frames import Frame, Kind
from lossleuth.run_directory import RECORD
from lossleuth.types.errors import BadInput

_CHUNK = 1 << 22
_NO_MATRIX = -1


class Other(NamedTuple):
    """A frame that is not a step: how many steps came before it, and where its payload is."""

    kind: Kind
    steps_before: int
    payload: int
    length: int


class Log:
    """The valid part of a log, which grows with every `refresh`."""

    def __init__(self, path: Path) -> None:
        self.path = path / RECORD if path.is_dir() else path
        self.descriptor = _open(self.path)
        # For each step: its number, where its JSON is and how long, which table its matrix obeys.
        self.steps = array("q")
        self._scalars_at = array("Q")
        self._scalars_length = array("I")
        self._table = array("i")
        self.tables: list[payloads.Table] = []
        self.others: list[Other] = []
        self.header: dict[str, Any] = {}
        self.ended: dict[str, Any] | None = None
        self.held = False
        """Whether a living process was writing the log at the last refresh."""
        self.problem: str | None = None
        self._end = len(frames.OPENING)
        try:
            _check_opening(self.path, os.pread(self.descriptor, len(frames.OPENING), 0))
            self.refresh()
            if not self.others:
                raise BadInput(
                    "a record with its header",
                    f"{self.path}: {self.problem or 'it ends before the header'}",
                    "wait until the run has begun, or record it again",
                )
        except BaseException:
            self.close()
            raise

    def refresh(self) -> None:
        """Read what was appended."""
        self._read_on()
        self.held = self.ended is None and is_held(self.descriptor)
        if not self.held and self.ended is None:
            # It may have been written, ended and let go of since we looked.
            self._read_on()

    def close(self) -> None:
        """Close the file."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def scalars(self, index: int) -> bytes:
        """The JSON of a step's scalars."""
        return self.read(self._scalars_at[index], self._scalars_length[index])

    def table_of(self, index: int) -> payloads.Table | None:
        """The table that a step's matrix obeys; None if the step has no matrix."""
        table = self._table[index]
        return None if table == _NO_MATRIX else self.tables[table]

    def matrix_at(self, index: int) -> int:
        """Where a step's matrix begins."""
        return self._scalars_at[index] + self._scalars_length[index]

    def read(self, at: int, length: int) -> bytes:
        """Bytes that a scan has already found whole."""
        data = os.pread(self.descriptor, length, at)
        if len(data) != length:
            raise BadInput(
                "a log that only grows",
                f"{self.path}: it was cut short at byte {at + len(data)} while it was read",
                "open it again",
            )
        return data

    def _read_on(self) -> None:
        """Scan from where the valid part ended."""
        self.problem = None
        size = os.fstat(self.descriptor).st_size
        if size < self._end:
            self.problem = f"the log was cut to {size} bytes after {self._end} had been read"
            return
        wanted = _CHUNK
        while self._end < size:
            data = os.pread(self.descriptor, min(wanted, size - self._end), self._end)
            found = frames.scan(data)
            if not self._take(found.frames, memoryview(data)):
                return
            self._end += found.end
            if found.missing and self._end + len(data) - found.end + found.missing <= size:
                wanted = max(_CHUNK, len(data) - found.end + found.missing)
            elif found.reason:
                self._stop(found.reason, damaged=not found.missing)
                return

    def _stop(self, reason: str, *, damaged: bool) -> None:
        if damaged:
            self.problem = f"the log is damaged at byte {self._end}: {reason}"
        elif not is_held(self.descriptor):
            self.problem = f"the log ends in the middle of a frame at byte {self._end}"

    def _take(self, found: list[Frame], data: memoryview) -> bool:
        """Enter frames into the index; False where one does not hold what its kind promises."""
        base = self._end
        for frame in found:
            payload = data[frame.payload : frame.payload + frame.length]
            try:
                self._enter(frame, base + frame.payload, payload)
            except (ValueError, RecursionError) as error:
                self._end = base + frame.start
                self._stop(str(error), damaged=True)
                return False
        return True

    def _enter(self, frame: Frame, at: int, payload: memoryview) -> None:
        if (frame.kind is Kind.HEADER) == bool(self.others):
            raise ValueError("a log has one header, and begins with it")
        if frame.kind is Kind.STEP:
            number, begin, end = payloads.step_layout(payload)
            table = _NO_MATRIX
            if end < frame.length:
                table = len(self.tables) - 1
                if table < 0 or frame.length - end != self.tables[table].matrix_bytes:
                    raise ValueError("a matrix is not of the declared size")
            self.steps.append(number)
            self._scalars_at.append(at + begin)
            self._scalars_length.append(end - begin)
            self._table.append(table)
            return
        if frame.kind is Kind.PARAMETERS:
            self.tables.append(payloads.decode_table(bytes(payload)))
        elif frame.kind is Kind.HEADER:
            self.header = _mapping(payload)
        elif frame.kind is Kind.END:
            self.ended = _mapping(payload)
        else:
            event_parts(payload)
        self.others.append(Other(frame.kind, len(self.steps), at, frame.length))


def event_parts(payload: memoryview | bytes) -> tuple[str, dict[str, Any]]:
    """Kind and data of an event; ValueError if it lacks one of them."""
    found = values.decode_raw(bytes(payload))
    kind, data = (found.get("kind"), found.get("data")) if isinstance(found, dict) else (0, 0)
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise ValueError("an event without its kind or data")
    return kind, values.restore(data)


def _mapping(payload: memoryview) -> dict[str, Any]:
    value = values.decode_json(bytes(payload))
    if not isinstance(value, dict):
        raise ValueError("a JSON object was expected")
    return value


def _open(path: Path) -> int:
    """Open a regular file; never wait for a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInput(
            f"a run directory with its {RECORD}", f"{path}: {why}", "check the path"
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise BadInput("a record", f"{path}: it is not a regular file", "check the path")
    return descriptor


def _check_opening(path: Path, opening: bytes) -> None:
    if not opening:
        raise BadInput("a record", f"{path}: it is empty", "wait until the run has begun")
    version = frames.version_of(opening)
    if version is None:
        raise BadInput("a record of lossleuth", f"{path}: it begins otherwise", f"name a {RECORD}")
    if version != frames.VERSION:
        raise BadInput(
            f"a record of version {frames.VERSION}",
            f"{path}: it is of version {version}",
            "read it with the lossleuth that wrote it",
        )
