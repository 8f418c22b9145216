"""Guards each of our hooks: no error in it reaches the user's run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, TypeVar, TypeVarTuple

from lossleuth.observe.session import Session
from lossleuth.tape.capture.compiler_marks import never_compile

Given = TypeVarTuple("Given")
Owner = TypeVar("Owner", bound="Guarded")


class Guarded(Protocol):
    """An object whose hooks are guarded and timed."""

    session: Session


def guarded(hook: Callable[[Owner, *Given], Any]) -> Callable[[Owner, *Given], None]:
    """Keep a hook's errors away from the run, and add up the time it takes.

    What a hook does is our own work. Ctrl-C is the user's and passes through.
    """

    def safely(self: Owner, /, *args: *Given) -> None:
        began = perf_counter()
        session = self.session
        own = session.own
        own.depth += 1
        try:
            hook(self, *args)
        except Exception as error:
            session.failures.note(hook.__name__, error)
        finally:
            own.depth -= 1
            session.own_seconds += perf_counter() - began

    functools.update_wrapper(safely, hook)
    return never_compile(safely)
