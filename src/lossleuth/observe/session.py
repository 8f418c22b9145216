"""The one owner of everything that a watch changes in a process.

Every patch, hook, dispatch mode, variable and registration is made through a session, and all of
them are given back, last first, when it is closed.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from types import ModuleType
from typing import Any

from lossleuth.observe.failures import Failures
from lossleuth.tape.capture.own_work import OwnWork


class Session:
    """What one watch has changed, and whether it is the program or us who is at work.

    >>> session, owner = Session(), Failures()
    >>> session.replace(owner, "count", 7)
    >>> owner.count
    7
    >>> session.close()
    >>> owner.count
    0
    """

    def __init__(self, failures: Failures | None = None) -> None:
        self.failures = failures or Failures()
        self.own = OwnWork()
        # What our hooks have taken of the run's time.
        self.own_seconds = 0.0
        # Patches that could not be applied, and why: what they would have seen stays unseen.
        self.missing: dict[str, str] = {}
        # Functions of modules with what stands in their place.
        self.replaced: list[tuple[Any, Any]] = []
        self._undo = ExitStack()
        _open_sessions.add(self)

    @property
    def is_ours(self) -> bool:
        """Whether what happens in this thread is our doing."""
        return self.own.depth > 0

    def ours(self) -> AbstractContextManager[None]:
        """What is done in this block is ours: not observed, not recorded."""
        return self.own.work()

    def replace(self, owner: Any, name: str, replacement: Any) -> None:
        """Put something in the place of an attribute until the session is closed."""
        inherited = name not in vars(owner)
        original = getattr(owner, name)
        # A class method is bound where it is looked up, and is put back as it stands.
        stands = vars(owner).get(name)

        def undo() -> None:
            if inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, stands)

        setattr(owner, name, replacement)
        self.on_close(undo)
        if isinstance(owner, ModuleType):
            self.replaced.append((original, replacement))

    def on_close(self, undo: Callable[[], object]) -> None:
        """Call this when the session is closed."""
        self._undo.callback(undo)

    def attempt(self, name: str, patch: Callable[[], None]) -> None:
        """Apply a patch; one that fails is noted by its name, and the others still work."""
        try:
            patch()
        except Exception as error:
            self.failures.note(name, error)
            self.missing[name] = f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Leave the process as it was, also what something went wrong with."""
        _open_sessions.discard(self)
        self.replaced.clear()
        self._undo.close()


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _close_in_child() -> None:
    """A forked process is not ours to watch. Python cannot take this back: once per process."""
    for session in list(_open_sessions):
        with suppress(Exception):
            session.close()


os.register_at_fork(after_in_child=_close_in_child)
