"""Our own failures: they are counted, named once at the end, and never reach the user's run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, TypeVar, TypeVarTuple

Given = TypeVarTuple("Given")
Owner = TypeVar("Owner", bound="Guarded")


class Failures:
    """How often something of ours went wrong, and what it was the first time."""

    def __init__(self) -> None:
        self.count = 0
        self.first: str | None = None

    def note(self, where: str, error: BaseException) -> None:
        """Count a failure.

        >>> failures = Failures()
        >>> failures.note("on_step", ValueError("no"))
        >>> failures.sentence()
        'lossleuth itself failed 1 time while watching (first: ValueError in on_step: no)'
        """
        self.count += 1
        if self.first is None:
            self.first = f"{type(error).__name__} in {where}: {error}"

    def sentence(self) -> str | None:
        """One sentence for the end of the run, or None if all went well."""
        if not self.count:
            return None
        times = "1 time" if self.count == 1 else f"{self.count} times"
        return f"lossleuth itself failed {times} while watching (first: {self.first})"


class Capturing(Protocol):
    """Something that records operations now and then."""

    @property
    def capture(self) -> Any:
        """What records the program's operations, if anything does."""


class Guarded(Protocol):
    """An object whose hooks are guarded and timed."""

    failures: Failures
    own_seconds: float

    @property
    def taping(self) -> Capturing:
        """What may be recording the program's operations."""


def guarded(hook: Callable[[Owner, *Given], Any]) -> Callable[[Owner, *Given], None]:
    """Keep what goes wrong in a hook away from the run, and add up the time that it takes.

    Ctrl-C is the user's and passes through.
    """

    def safely(self: Owner, /, *args: *Given) -> None:
        began = perf_counter()
        capture = self.taping.capture
        if capture is not None:
            capture.ignoring += 1
        try:
            hook(self, *args)
        except Exception as error:
            self.failures.note(hook.__name__, error)
        finally:
            if capture is not None:
                capture.ignoring -= 1
            self.own_seconds += perf_counter() - began

    functools.update_wrapper(safely, hook)
    return safely
