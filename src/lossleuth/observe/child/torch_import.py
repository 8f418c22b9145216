"""Calls a function as soon as the script has imported torch, and not before.

Importing torch ahead of the script would change it: a script may set thread counts or devices
in the environment first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class _AfterLoader(Loader):
    """Loads a module with its own loader, then calls us."""

    def __init__(self, loader: Loader, done: Callable[[], None]) -> None:
        self._loader = loader
        self._done = done

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, with its own loader back in its place."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._done()


class _Finder(MetaPathFinder):
    def __init__(self, after: Callable[[], None]) -> None:
        self._after = after

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Wrap torch's loader. Libraries also call this just to see if torch is installed."""
        if name != "torch":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _AfterLoader(spec.loader, self._loaded)
        return spec

    def _loaded(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._after()


def after_torch_import(after: Callable[[], None]) -> Callable[[], None]:
    """Call `after` when torch has been imported, at once if it already has; returns the undo."""
    if "torch" in sys.modules:
        after()
        return lambda: None
    finder = _Finder(after)
    sys.meta_path.insert(0, finder)

    def undo() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return undo
