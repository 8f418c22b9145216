"""Torch functions that report their arguments and otherwise behave as before."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from lossleuth.tape.capture.compiler_marks import compiling, transparent_to_compiler


def seeing(original: Any, see: Callable[..., None]) -> Any:
    """`original`, preceded by a call with its arguments.

    The result has the original's globals and source, so that TorchScript, which compiles a
    function from its source and looks names up in its globals, finds what it would find without
    us; the compiler goes past the look.
    """
    # Not a global: those are the original's.
    is_compiling = compiling

    @transparent_to_compiler
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_compiling():
            see(*args, **kwargs)
        return original(*args, **kwargs)

    made = types.FunctionType(
        wrapper.__code__, original.__globals__, original.__name__, None, wrapper.__closure__
    )
    return functools.update_wrapper(made, original)
