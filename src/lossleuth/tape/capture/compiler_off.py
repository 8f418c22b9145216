"""Programs run uncompiled while they are recorded.

The compiler leaves functions alone while a mode like ours is at work; but one that must be compiled
as a whole, by `fullgraph=True`, then raises an error. Where it is told to stand aside, it does not.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from lossleuth.torch_internals import SET_STANCE, loaded_compiler_settings, loaded_stances

# Read by the compiler when it is loaded.
DISABLE = "TORCHDYNAMO_DISABLE"


class CompilerOff:
    """The compiler stands aside as long as anybody wants it to.

    Which stance the program takes meanwhile is kept, and holds from the moment that nobody does.
    """

    def __init__(self) -> None:
        self._wanted = 0
        self._theirs: Any = None
        self._put_back: Callable[[], None] | None = None

    def acquire(self) -> None:
        """From now on, functions are not compiled."""
        self._wanted += 1
        # Whoever makes an optimizer or compiles anything has loaded this.
        stances = loaded_stances()
        if self._put_back is None and stances is not None:
            self._put_back = self._taken(stances)

    def release(self) -> None:
        """One less wants it."""
        self._wanted -= 1
        if not self._wanted and self._put_back is not None:
            put_back, self._put_back = self._put_back, None
            put_back()

    def _taken(self, stances: Any) -> Callable[[], None]:
        take = getattr(stances, SET_STANCE)
        self._theirs = take(stances.DynamoStance("force_eager"))

        @functools.wraps(take)
        def keep(stance: Any) -> Any:
            before, self._theirs = self._theirs, stance
            return before

        setattr(stances, SET_STANCE, keep)

        def put_back() -> None:
            setattr(stances, SET_STANCE, take)
            take(self._theirs)

        return put_back


COMPILER_OFF = CompilerOff()


def disable_compiler() -> Callable[[], None]:
    """Compile nothing from now on, also in processes that are started; gives the undoing."""
    variable, settings = os.environ.get(DISABLE), loaded_compiler_settings()
    before = None if settings is None else settings.disable
    os.environ[DISABLE] = "1"
    if settings is not None:
        settings.disable = True

    def undo() -> None:
        if variable is None:
            os.environ.pop(DISABLE, None)
        else:
            os.environ[DISABLE] = variable
        settings = loaded_compiler_settings()
        if settings is not None:
            # It may have been loaded meanwhile, and have read the variable.
            settings.disable = variable == "1" if before is None else before

    return undo
