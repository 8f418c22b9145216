"""Keeps torch's compiler out of our functions.

Where a compiled function cannot be compiled any further, Python runs it, and the compiler is asked
again about every function called from there: hooks, modes and replaced functions of ours too. It
would compile them, fail in some, and take the program's tensors for constants in others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from lossleuth.torch_internals import mark_code, mark_constant, mark_disabled

Function = TypeVar("Function", bound=Callable[..., Any])

# Constant for the compiler: what stands behind `if not compiling()` does not exist for it.
compiling = torch.compiler.is_compiling


def never_compile(function: Function) -> Function:
    """A function that the compiler leaves alone, with all that it calls.

    If a compiled function calls it, the compiler's graph ends before it.
    """
    _mark(function, with_calls=True)
    mark_disabled(function)
    return function


def transparent_to_compiler(function: Function) -> Function:
    """A function that stands around one of the program's, which is compiled as without us."""
    _mark(function, with_calls=False)
    return function


def constant_for_compiler(function: Function) -> Function:
    """A function that the compiler calls while it compiles, and takes the result for constant."""
    mark_constant(function)
    return function


def ends_the_graph(method: Any) -> bool:
    """Whether a method stops the compiler by itself, as the steps of torch's optimizers do.

    >>> ends_the_graph(torch.optim.Adam.step), ends_the_graph(torch.nn.Linear.forward)
    (True, False)
    """
    while method is not None:
        if "graph_break" in getattr(getattr(method, "__code__", None), "co_names", ()):
            return True
        method = getattr(method, "__wrapped__", None)
    return False


def _mark(function: Any, *, with_calls: bool) -> None:
    mark_code(getattr(function, "__func__", function).__code__, with_calls=with_calls)
