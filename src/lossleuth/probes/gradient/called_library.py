"""The shared library that the backward of a custom function calls, if it is exactly one."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

# Functions of the program that are followed from the backward on. Picked by hand.
MAX_FOLLOWED = 32
_COMPILED = (".so", ".dylib", ".pyd", ".dll")


def called_library(cls: Any) -> str | None:
    """The file of the library that its backward names, by itself or in functions that it calls."""
    found: dict[str, None] = {}
    waiting, seen = [getattr(cls, "backward", None)], set[int]()
    while waiting and len(seen) < MAX_FOLLOWED:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        for value in _named(function):
            library = _library(value)
            if library is not None:
                found.setdefault(library)
            elif getattr(value, "__module__", None) == function.__module__:
                waiting.append(value)
    return next(iter(found)) if len(found) == 1 else None


def _named(function: FunctionType) -> Iterator[Any]:
    """What the names in a function's code stand for."""
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield function.__globals__[name]
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            # Not filled yet.
            continue


def _library(value: Any) -> str | None:
    if isinstance(value, ctypes.CDLL):
        return value._name or None
    file = getattr(value, "__file__", None) if isinstance(value, ModuleType) else None
    return file if isinstance(file, str) and file.endswith(_COMPILED) else None
