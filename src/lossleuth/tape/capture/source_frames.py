"""Which line of source an operation comes from, and which custom function it belongs to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

import torch

import lossleuth
from lossleuth.places import is_library
from lossleuth.tape.tape import Place

# With the separator: torchvision begins like torch and is not.
_TORCH = str(Path(torch.__file__).parent) + os.sep
_OURS = str(Path(lossleuth.__file__).parent) + os.sep
_OPTIMIZERS = str(Path(torch.__file__).parent / "optim") + os.sep
_APPLY = str(Path(torch.__file__).parent / "autograd" / "function.py")


def place_of(frame: FrameType | None = None) -> tuple[Place | None, bool]:
    """The innermost line outside torch and us, the user's if there is one in the stack.

    Also whether the innermost of all is the user's own.
    """
    at = sys._getframe(1) if frame is None else frame
    library: Place | None = None
    while at is not None:
        name = at.f_code.co_filename
        if not is_library(name):
            return Place(name, at.f_lineno), library is None
        if library is None and not name.startswith((_TORCH, _OURS, "<")):
            library = Place(name, at.f_lineno)
        at = at.f_back  # type: ignore[assignment]  # None ends the walk
    return library, False


def in_own_optimizer() -> bool:
    """Whether an optimizer of torch's own is at work, called by the user's code."""
    at: FrameType | None = sys._getframe(1)
    while at is not None and is_library(at.f_code.co_filename):
        if at.f_code.co_filename.startswith(_OPTIMIZERS):
            return True
        at = at.f_back
    return False


def custom_function() -> FrameType | None:
    """The frame of `Function.apply` that is at work, or None."""
    at: FrameType | None = sys._getframe(1)
    while at is not None:
        code = at.f_code
        if code.co_filename == _APPLY and code.co_name == "apply":
            return at
        at = at.f_back
    return None
