"""The one answer to "is it the program that is at work here, or are we?"."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OwnWork(threading.local):
    """Above 0 while code of ours is at work in this thread: that is no part of the program.

    Hooks that are called in every step count up and down by hand; elsewhere there is `work`.

    >>> own = OwnWork()
    >>> with own.work():
    ...     own.depth
    1
    >>> own.depth
    0
    """

    depth = 0

    @contextmanager
    def work(self) -> Iterator[None]:
        """What is done in this block is ours."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
