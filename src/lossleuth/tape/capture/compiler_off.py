"""Programs run uncompiled while they are recorded.

The compiler leaves functions alone while a mode like ours is at work; but one that must be compiled
as a whole, by `fullgraph=True`, then raises an error. Where it is told to stand aside, it does not.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


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
        stances = sys.modules.get("torch._dynamo.decorators")
        if self._put_back is None and hasattr(stances, "_set_stance"):  # not in torch below 2.6
            self._put_back = self._taken(stances)

    def release(self) -> None:
        """One less wants it."""
        self._wanted -= 1
        if not self._wanted and self._put_back is not None:
            put_back, self._put_back = self._put_back, None
            put_back()

    def _taken(self, stances: Any) -> Callable[[], None]:
        take = stances._set_stance
        self._theirs = take(stances.DynamoStance("force_eager"))

        @functools.wraps(take)
        def keep(stance: Any) -> Any:
            before, self._theirs = self._theirs, stance
            return before

        stances._set_stance = keep

        def put_back() -> None:
            stances._set_stance = take
            take(self._theirs)

        return put_back


COMPILER_OFF = CompilerOff()
