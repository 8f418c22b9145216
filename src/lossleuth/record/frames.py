"""Frames: a log cut into pieces, each of which proves itself whole.

A log is an opening of 16 bytes (a magic and the version of the format), then frames to its end:

| bytes | what                                                            |
|-------|-----------------------------------------------------------------|
| 4     | length of the payload, little-endian                            |
| 1     | kind of the frame                                               |
| 4     | CRC-32 of these five bytes                                      |
| n     | the payload                                                     |
| 4     | CRC-32 of the five bytes and the payload                        |

The head has a checksum of its own, because a damaged length would otherwise look like a frame
that is still being written, and a follower would wait for it for ever.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

# The line ends betray a transfer in text mode, the first byte a transfer in seven bits.
MAGIC = b"\x89lossleuth\r\n\x1a\n"
VERSION = 1
_VERSION = struct.Struct("<H")
OPENING = MAGIC + _VERSION.pack(VERSION)

MAX_PAYLOAD_BYTES = 1 << 26

_HEAD = struct.Struct("<IB")
_SUM = struct.Struct("<I")
_BEFORE = _HEAD.size + _SUM.size


class Kind(IntEnum):
    """What a frame holds."""

    HEADER = 1
    PARAMETERS = 2
    STEP = 3
    EVENT = 4
    END = 5


class Frame(NamedTuple):
    """A whole frame within scanned bytes: where it starts, where its payload is."""

    kind: Kind
    start: int
    payload: int
    length: int


@dataclass(frozen=True)
class Scan:
    """The frames of the longest valid prefix, where that ends, and why it does not go on."""

    frames: list[Frame]
    end: int
    reason: str | None
    missing: int
    """How many bytes at least must follow before more can be said; 0 if none would help."""


def encode(kind: Kind, *parts: bytes) -> bytes:
    """A frame around the parts of its payload.

    >>> encode(Kind.EVENT, b"{", b"}").hex(" ")
    '02 00 00 00 04 64 60 8f bb 7b 7d 37 cb 85 ef'
    """
    length = sum(map(len, parts))
    if length > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a frame of {length} bytes is over the limit of {MAX_PAYLOAD_BYTES}")
    head = _HEAD.pack(length, kind)
    checksum = crc32(head)
    before = _SUM.pack(checksum)
    for part in parts:
        checksum = crc32(part, checksum)
    return b"".join((head, before, *parts, _SUM.pack(checksum)))


def scan(data: bytes) -> Scan:
    """Find the whole frames at the start of `data`.

    >>> two = encode(Kind.EVENT, b"{}") + encode(Kind.END, b"{}")
    >>> [(frame.kind.name, frame.start) for frame in scan(two).frames]
    [('EVENT', 0), ('END', 15)]
    >>> cut = scan(two[:-3])
    >>> cut.end, cut.reason, cut.missing
    (15, 'it ends in the middle of a frame', 3)
    >>> scan(b"?" + two[1:]).reason
    'the head of a frame is damaged'
    """
    view = memoryview(data)
    frames: list[Frame] = []
    at, size = 0, len(view)
    while at < size:
        fault, missing, frame = _frame_at(view, at, size)
        if frame is None:
            return Scan(frames, at, fault, missing)
        frames.append(frame)
        at = frame.payload + frame.length + _SUM.size
    return Scan(frames, at, None, 0)


def _frame_at(view: memoryview, at: int, size: int) -> tuple[str | None, int, Frame | None]:
    """The frame at an offset; else what is wrong there, and how many bytes are missing."""
    payload = at + _BEFORE
    if payload > size:
        return "it ends in the middle of a frame", payload - size, None
    length, kind = _HEAD.unpack_from(view, at)
    checksum = crc32(view[at : at + _HEAD.size])
    if _SUM.unpack_from(view, at + _HEAD.size)[0] != checksum:
        return "the head of a frame is damaged", 0, None
    if kind not in _KINDS:
        return f"a frame is of the unknown kind {kind}", 0, None
    if length > MAX_PAYLOAD_BYTES:
        return f"a frame claims {length} bytes, over the limit of {MAX_PAYLOAD_BYTES}", 0, None
    end = payload + length
    if end + _SUM.size > size:
        return "it ends in the middle of a frame", end + _SUM.size - size, None
    if _SUM.unpack_from(view, end)[0] != crc32(view[payload:end], checksum):
        return "a frame does not match its checksum", 0, None
    return None, 0, Frame(_KINDS[kind], at, payload, length)


_KINDS = {int(kind): kind for kind in Kind}


def version_of(opening: bytes) -> int | None:
    """The version of the log that opens with these bytes; None if it is no log of ours.

    >>> version_of(OPENING), version_of(b"PK..............")
    (1, None)
    """
    if len(opening) < len(OPENING) or not opening.startswith(MAGIC):
        return None
    return int(_VERSION.unpack_from(opening, len(MAGIC))[0])
