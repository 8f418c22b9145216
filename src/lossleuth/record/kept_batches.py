"""The file beside a record that keeps what each step trained on: integers looked up, and targets.

What belongs to what is found out by whoever reads it; writing has to be cheap. A file that ends in
the middle of a step, since the program was killed or the room was used up, gives the steps before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

# Bytes of one file: 16 million tokens, which is more than a reference is trained on in its time.
MAX_BYTES = 64 << 20
_LARGEST = np.iinfo(np.int32).max
# Kind, rows, their width, a number (of a step, or the ignored target), classes.
_HEAD = struct.Struct("<BIIqq")
_LOOKUP, _TARGETS, _MICRO_BATCH, _STEP = range(4)

Integers = NDArray[np.integer[Any]]
Rows = NDArray[np.int32]


@dataclass(frozen=True)
class KeptTargets:
    """What a loss was compared with, the target that it ignores, and its number of classes."""

    values: Rows
    ignored: int
    classes: int


@dataclass
class KeptMicroBatch:
    """What was looked up and compared until a backward pass."""

    lookups: list[Rows] = field(default_factory=list)
    targets: list[KeptTargets] = field(default_factory=list)


@dataclass(frozen=True)
class KeptStep:
    """The micro-batches of one step."""

    step: int
    micro_batches: list[KeptMicroBatch]


class KeptBatches:
    """Writes the file. What goes wrong with it ends it, and hurts nobody."""

    def __init__(self, path: Path, most: int = MAX_BYTES) -> None:
        self._path = path
        self._room = most
        self._stream: BinaryIO | None = None
        # Fingerprints of what was looked up since the last backward pass: several tables may be
        # asked for the same.
        self._seen: set[int] = set()

    def lookup(self, values: Integers, fingerprint: int) -> None:
        """Integers were looked up."""
        if fingerprint not in self._seen:
            self._seen.add(fingerprint)
            self._put(_LOOKUP, values)

    def targets(self, values: Integers, ignored: int, classes: int) -> None:
        """A loss was taken against these."""
        self._put(_TARGETS, values, ignored, classes)

    def end_micro_batch(self) -> None:
        """What follows belongs to another backward pass."""
        self._seen.clear()
        self._put(_MICRO_BATCH)

    def end_step(self, number: int) -> None:
        """What follows belongs to another step."""
        self._put(_STEP, number=number)

    def close(self) -> None:
        """Nothing more is kept."""
        self._room = 0
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError):
                stream.close()

    def _put(
        self, kind: int, values: Integers | None = None, number: int = 0, classes: int = 0
    ) -> None:
        if self._room <= 0:
            return
        rows, width, payload = 0, 0, b""
        if values is not None and values.size:
            if values.dtype.itemsize > 4 and abs(values).max() > _LARGEST:
                return
            width = values.shape[-1] if values.ndim else 1
            rows = values.size // width
            payload = values.astype(np.int32).tobytes()
        self._room -= _HEAD.size + len(payload)
        try:
            if self._stream is None:
                self._stream = self._path.open("wb")
            self._stream.write(_HEAD.pack(kind, rows, width, number, classes) + payload)
        except OSError:
            self.close()
        if self._room <= 0:
            self.close()


def kept_steps(path: Path) -> Iterator[KeptStep]:
    """The steps that are there as a whole, in their order; none without a file."""
    micro_batches = [KeptMicroBatch()]
    try:
        stream = path.open("rb")
    except OSError:
        return
    with stream:
        while len(head := stream.read(_HEAD.size)) == _HEAD.size:
            kind, rows, width, number, classes = _HEAD.unpack(head)
            payload = stream.read(4 * rows * width)
            if len(payload) < 4 * rows * width:
                return
            values = np.frombuffer(payload, np.int32).reshape(rows, width)
            present = micro_batches[-1]
            if kind == _LOOKUP:
                present.lookups.append(values)
            elif kind == _TARGETS:
                present.targets.append(KeptTargets(values, number, classes))
            elif kind == _MICRO_BATCH:
                micro_batches.append(KeptMicroBatch())
            else:
                yield KeptStep(number, [m for m in micro_batches if m.lookups or m.targets])
                micro_batches = [KeptMicroBatch()]
