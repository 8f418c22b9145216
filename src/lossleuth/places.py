"""Finds the line of the user's code that is running."""

from __future__ import annotations

import os
import site
import sysconfig
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import lossleuth


def _library_folders() -> tuple[str, ...]:
    folders = {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= set(site.getsitepackages()) | {site.getusersitepackages()}
    folders.add(str(Path(lossleuth.__file__).parent))
    # With a separator at the end: a project beside a folder may begin with its name.
    return tuple(sorted(f"{folder}{os.sep}" for folder in folders if folder))


LIBRARY_FOLDERS = _library_folders()
# Names that only installers give to folders.
PACKAGE_FOLDERS = ("site-packages", "dist-packages")


@cache
def is_library(filename: str) -> bool:
    """Whether a source file belongs to Python, an installed package or lossleuth.

    Everything else is the user's: the script, modules beside it, a notebook cell.

    >>> import json
    >>> is_library(json.__file__), is_library("train.py")
    (True, False)
    """
    if filename in _declared:
        return False
    # Packages may lie in a folder that this interpreter only links to.
    installed = any(f"{os.sep}{name}{os.sep}" in filename for name in PACKAGE_FOLDERS)
    if filename.startswith("<frozen") or installed:
        return True
    return any(filename.startswith(folder) for folder in LIBRARY_FOLDERS)


def declare_user_file(filename: str) -> None:
    """The script is the user's wherever it lies, be it in an installed package."""
    _declared.add(filename)
    is_library.cache_clear()
    reads_for_the_user.cache_clear()


@cache
def reads_for_the_user(filename: str) -> bool:
    """Whether a read from this file may be the user's: a cheap first look for every read.

    >>> import torch
    >>> reads_for_the_user(torch.__file__), reads_for_the_user("train.py")
    (False, True)
    """
    return filename.endswith(_FORMATTING) or not is_library(filename)


def user_place(frame: FrameType | None) -> str | None:
    """File and line of the innermost frame in the user's code, from this one outwards, or None."""
    while frame is not None:
        code = frame.f_code
        if not is_library(code.co_filename):
            # Looking a line up takes a walk through all lines of its function.
            key = id(code), frame.f_lasti
            _, place = _places.get(key) or (None, None)
            if place is None:
                place = f"{code.co_filename}:{frame.f_lineno}"
                _places[key] = code, place
            return place
        frame = frame.f_back
    return None


def reading_place(frame: FrameType | None) -> str | None:
    """The user's line that reads a value in this frame, or None where a library reads it.

    Formatting a tensor reads it inside torch on the user's behalf; anything else that torch
    reads, an optimizer its step count for one, it reads for itself.
    """
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_library(filename):
            return f"{filename}:{frame.f_lineno}"
        if not filename.endswith(_FORMATTING):
            return None
        frame = frame.f_back
    return None


_declared: set[str] = set()
# By address and instruction, with the code itself, so that the address stays its own.
_places: dict[tuple[int, int], tuple[CodeType, str]] = {}
_FORMATTING = ("torch/_tensor.py", "torch/_tensor_str.py")
