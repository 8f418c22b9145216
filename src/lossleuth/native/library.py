"""The native library beside this file: found, checked and opened, or the reason why not.

Loads neither torch nor numpy, so that `doctor` can ask; `hatch_build.py` shares its names.
"""

from __future__ import annotations

import ctypes
import functools
import os
import zlib
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

SWITCH = "LOSSLEUTH_NATIVE"
FOLDER = Path(__file__).parent
LIBRARY = "liblossleuth.so"
# One line that the build leaves in the library's place.
ABSENCE = "liblossleuth.absent"

_POINTER = ctypes.c_void_p
_COUNT = ctypes.c_int64
_Four = ctypes.c_int64 * 4

Call = Callable[..., Any]


class Unusable(Exception):
    """Why the library cannot be used, as one sentence."""


class NgramCalls(NamedTuple):
    """Functions of a mixture of n-grams, which is an address."""

    # Of a vocabulary, entries at most, the share of the weights that is forgotten; 0: no memory.
    make: Call
    free: Call
    # Mixture, tokens, targets, rows, their width: the sum of losses.
    score: Call
    # The same; not 0 when memory ran out.
    learn: Call


class Library:
    """The C functions with their types; addresses are integers, and the caller keeps them alive."""

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise Unusable(f"{path.name} cannot be loaded: {error}") from None
        # The functions of every step as functions of Python itself, where they could be built:
        # they take the same arguments, and a call costs a seventh.
        # With them come those that `handles.py` asks torch through.
        calls = self.calls = _calls(path)
        # An address, and numbers for it.
        self.put: Call = getattr(calls, "put", _put)
        try:
            self.source = _function(library, "source", ctypes.c_uint32)
            # A plan, the step's number, threads; not 0 when memory ran out.
            step = (_POINTER, ctypes.c_uint64, _COUNT)
            before = _function(library, "before", ctypes.c_int, *step)
            after = _function(library, "after", ctypes.c_int, *step)
            # Tokens, bytes of each, rows, their width, how far apart they begin: hash,
            # largest, smallest, whether rows count up by one; `_with_count` has the count second.
            batch = (_POINTER, _COUNT, _COUNT, _COUNT, _COUNT)
            fingerprint = _function(library, "fingerprint", None, *batch, _POINTER)
            # The same; the one that is ignored.
            others = _function(library, "others", _COUNT, *batch, _COUNT)
            self.before: Call = getattr(calls, "before", before)
            self.after: Call = getattr(calls, "after", after)
            self.fingerprint: Call = getattr(calls, "fingerprint", _with_count(fingerprint))
            self.others: Call = getattr(calls, "others", others)
            # Targets, mask or 0, their count, the one that is ignored, columns: the first that is
            # wrong, or -1, and how many count.
            places = (_POINTER, _POINTER, _COUNT, _COUNT, _COUNT)
            supervised = _function(library, "supervised", _COUNT, *places, _POINTER)
            self.supervised: Call = getattr(calls, "supervised", with_result(supervised, _COUNT))
            # What `row_losses.py` describes, threads: not 0 when memory ran out, and the sum.
            rows = (ctypes.c_int, _POINTER, _COUNT, _POINTER)
            entropy = _function(library, "cross_entropy", *rows)
            divergence = _function(library, "divergence", *rows)
            number = ctypes.c_double
            self.cross_entropy: Call = getattr(calls, "cross_entropy", with_result(entropy, number))
            self.divergence: Call = getattr(calls, "divergence", with_result(divergence, number))
            # Numbers, rows, their width, the method, sums.
            sums = (_POINTER, _COUNT, _COUNT, _COUNT, _POINTER)
            self.row_sums = _function(library, "row_sums", None, *sums)
            self.ngrams = _ngrams(library)
        except AttributeError as error:
            raise Unusable(f"{path.name} is of another release: {error}") from None


@functools.cache
def load() -> Library | None:
    """The library, or None where `why_absent` has the reason."""
    found = _found()
    return found if isinstance(found, Library) else None


def why_absent() -> str | None:
    """Why everything runs on torch instead; None when the library is in use."""
    found = _found()
    return found if isinstance(found, str) else None


def checksum(folder: Path = FOLDER) -> int:
    """A checksum of the native sources, which the library carries."""
    sources = sorted((*folder.glob("*.cpp"), *folder.glob("*.h")))
    return zlib.crc32(b"".join(source.read_bytes() for source in sources))


def open_library(folder: Path) -> Library:
    """The library in `folder`, made from the very sources that lie beside it."""
    path = folder / LIBRARY
    if not path.exists():
        note = folder / ABSENCE
        reason = note.read_text(encoding="utf-8").strip() if note.exists() else "it was never built"
        raise Unusable(f"{reason}; with a C++ compiler there, install lossleuth again")
    library = Library(path)
    if library.source() != checksum(folder):
        raise Unusable(f"{path.name} was built from other sources; install lossleuth again")
    return library


@functools.cache
def _found() -> Library | str:
    # Once: looking for what is not in the environment takes 2 us, and losses ask in every call.
    if os.environ.get(SWITCH) == "0":
        return f"switched off by {SWITCH}=0"
    try:
        return open_library(FOLDER)
    except Unusable as reason:
        return str(reason)


def _calls(path: Path) -> ModuleType | None:
    """The library as a module of Python; None where it was built without Python's headers."""
    loader = ExtensionFileLoader("lossleuth_calls", str(path))
    spec = spec_from_file_location("lossleuth_calls", path, loader=loader)
    try:
        return None if spec is None else module_from_spec(spec)
    except ImportError:
        return None


def _ngrams(library: ctypes.CDLL) -> NgramCalls:
    rows = (_POINTER, _POINTER, _POINTER, _COUNT, _COUNT)
    return NgramCalls(
        _function(library, "ngrams_make", _POINTER, _COUNT, _COUNT, ctypes.c_double),
        _function(library, "ngrams_free", None, _POINTER),
        _function(library, "ngrams_score", ctypes.c_double, *rows),
        _function(library, "ngrams_learn", ctypes.c_int, *rows),
    )


def _put(address: int, numbers: list[float]) -> None:
    (ctypes.c_double * len(numbers)).from_address(address)[:] = [*numbers]


def with_result(function: ctypes._NamedFuncPointer, kind: type) -> Call:
    """The function's value, and what it leaves where its last argument points."""

    def call(*arguments: int) -> tuple[Any, Any]:
        left = kind()
        return function(*arguments, ctypes.byref(left)), left.value

    return call


def _with_count(function: ctypes._NamedFuncPointer) -> Call:
    def call(address: int, size: int, rows: int, width: int, stride: int) -> tuple[int, ...]:
        out = _Four()
        function(address, size, rows, width, stride, out)
        hashed, largest, smallest, consecutive = out
        return hashed % 2**64, rows * width, largest, smallest, consecutive == 1

    return call


def _function(
    library: ctypes.CDLL, name: str, result: type[ctypes._SimpleCData[Any]] | None, *types: type
) -> ctypes._NamedFuncPointer:
    function = library[f"lossleuth_{name}"]
    function.restype = result
    function.argtypes = types
    return function
