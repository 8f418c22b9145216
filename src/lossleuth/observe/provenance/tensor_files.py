"""Where tensors begin inside the files that hold them: safetensors, torch and numpy archives.

Only headers are read, and nothing is unpickled: the file may be anybody's.
"""

from __future__ import annotations

import ast
import json
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import torch

LARGEST_HEADER = 100_000_000
_NUMPY = b"\x93NUMPY"
_NUMPY_TYPES = {"f2": torch.float16, "f4": torch.float32, "f8": torch.float64}
_SAFETENSORS_TYPES = {
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


@dataclass(frozen=True)
class Stored:
    """A run of numbers in a file: offset, bytes, and type if the file states it."""

    offset: int
    size: int
    dtype: torch.dtype | None


def stored_tensors(file: BinaryIO) -> list[Stored]:
    """The tensors of floating-point numbers in a file; none if the format is unknown.

    >>> import io
    >>> buffer = io.BytesIO()
    >>> torch.save({"w": torch.ones(3)}, buffer)
    >>> 12 in [stored.size for stored in stored_tensors(buffer)]
    True
    """
    file.seek(0)
    magic = file.read(8)
    try:
        if magic.startswith(b"PK"):
            return list(_in_archive(file))
        if magic.startswith(_NUMPY):
            return list(_in_numpy(file, 0))
        return list(_in_safetensors(file, magic))
    except (ValueError, KeyError, TypeError, SyntaxError, struct.error, zipfile.BadZipFile):
        return []


def _in_archive(file: BinaryIO) -> Iterator[Stored]:
    """Torch and numpy keep each tensor as a member of its own, not compressed."""
    for member in zipfile.ZipFile(file).infolist():
        if member.compress_type != zipfile.ZIP_STORED or member.filename.endswith(".pkl"):
            continue
        file.seek(member.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        offset = member.header_offset + 30 + name + extra
        if member.filename.endswith(".npy"):
            yield from _in_numpy(file, offset)
        else:
            yield Stored(offset, member.file_size, None)


def _in_numpy(file: BinaryIO, start: int) -> Iterator[Stored]:
    file.seek(start)
    head = file.read(12)
    if not head.startswith(_NUMPY):
        return
    length, begins = struct.unpack("<H", head[8:10])[0], 10
    if head[6] >= 2:
        length, begins = struct.unpack("<I", head[8:12])[0], 12
    file.seek(start + begins)
    described = ast.literal_eval(file.read(min(length, LARGEST_HEADER)).decode("latin1").strip())
    kind = str(described["descr"]).lstrip("<|=")
    if kind in _NUMPY_TYPES:
        count = 1
        for side in described["shape"]:
            count *= side
        dtype = _NUMPY_TYPES[kind]
        yield Stored(start + begins + length, count * dtype.itemsize, dtype)


def _in_safetensors(file: BinaryIO, magic: bytes) -> Iterator[Stored]:
    (length,) = struct.unpack("<Q", magic)
    if length > LARGEST_HEADER:
        return
    for name, entry in json.loads(file.read(length)).items():
        dtype = None if name == "__metadata__" else _SAFETENSORS_TYPES.get(entry["dtype"])
        if dtype is not None:
            begin, end = entry["data_offsets"]
            yield Stored(8 + length + begin, end - begin, dtype)
