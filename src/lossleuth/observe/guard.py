"""The guard around each of our hooks: nothing that goes wrong in it reaches the user's run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, TypeVar, TypeVarTuple

from lossleuth.observe.failures import Failures
from lossleuth.tape.capture.compiler_marks import never_compile

Given = TypeVarTuple("Given")
Owner = TypeVar("Owner", bound="Guarded")


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
    def recording(self) -> Capturing:
        """What may be recording the program's operations."""


def guarded(hook: Callable[[Owner, *Given], Any]) -> Callable[[Owner, *Given], None]:
    """Keep what goes wrong in a hook away from the run, and add up the time that it takes.

    Ctrl-C is the user's and passes through.
    """

    def safely(self: Owner, /, *args: *Given) -> None:
        began = perf_counter()
        capture = self.recording.capture
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
    return never_compile(safely)
