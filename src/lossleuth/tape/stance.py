"""Programs run uncompiled while they are recorded.

The compiler leaves functions alone while a mode like ours is at work; but one that must be compiled
as a whole, by `fullgraph=True`, then raises an error. Where it is told to stand aside, it does not.
"""

from __future__ import annotations

import sys
from typing import Any

import torch


class Stance:
    """The compiler stands aside as long as anybody wants it to."""

    def __init__(self) -> None:
        self._wanted = 0
        self._taken: Any = None

    def aside(self) -> None:
        """From now on, functions are not compiled."""
        self._wanted += 1
        # Whoever makes an optimizer or compiles anything has loaded the compiler; torch below 2.6
        # has no stances.
        if self._taken is None and "torch._dynamo" in sys.modules:
            take = getattr(torch.compiler, "set_stance", None)
            self._taken = take and take("force_eager")

    def back(self) -> None:
        """One less wants it."""
        self._wanted -= 1
        if not self._wanted and self._taken is not None:
            taken, self._taken = self._taken, None
            # The program may have taken another one meanwhile, and keeps it.
            if sys.modules["torch._dynamo"].eval_frame._stance is taken.stance:
                taken.__exit__(None, None, None)


STANCE = Stance()
