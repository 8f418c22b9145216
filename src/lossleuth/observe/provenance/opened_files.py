"""What a run depends on besides its script: files, libraries, packages.

The fault is often in a file that nobody opened in an editor: a token file, a checkpoint, a
compiled kernel, a settings file. Python's audit hook sees what is opened, at no cost worth naming.
It cannot be taken away again: there is one in a process, and it is quiet while nobody listens.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from lossleuth.places import is_library

MAX_FILES = 2000
UNINTERESTING = (".py", ".pyc", ".pyi", ".pth", ".so")
SYSTEM_FOLDERS = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/")


class Provenance:
    """Collects the names of files while a script runs."""

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        self.written: dict[str, None] = {}
        self.libraries: dict[str, None] = {}
        # Environment variables set by the user's code, which a later import may read.
        self.variables: dict[str, None] = {}

    def listen(self) -> None:
        """Start noting opened files."""
        _add_audit_hook()
        _listening.append(self)

    def stop(self) -> None:
        """Stop listening."""
        if self in _listening:
            _listening.remove(self)

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle an audit event of Python."""
        if event == "open":
            self._opened(arguments)
        elif event == "ctypes.dlopen" and arguments and isinstance(arguments[0], str):
            # A bare name is looked for among the system's, and is no file of the script's.
            if os.sep in arguments[0]:
                self.libraries.setdefault(_absolute(arguments[0]))
        elif event in ("os.putenv", "os.unsetenv") and _is_users_doing(sys._getframe()):
            self.variables.setdefault(os.fsdecode(arguments[0]))

    def _opened(self, arguments: tuple[Any, ...]) -> None:
        path, mode, flags = (*arguments, None, None, None)[:3]
        if not isinstance(path, str | bytes | os.PathLike):
            return
        name = _absolute(os.fsdecode(path))
        hidden = (*SYSTEM_FOLDERS, sys.base_prefix + os.sep)
        if name.endswith(UNINTERESTING) or is_library(name) or name.startswith(hidden):
            return
        writes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
        if isinstance(mode, str):
            writes = writes or any(letter in mode for letter in "wax")
        known = self.written if writes else self.read
        if len(known) < MAX_FILES:
            known.setdefault(name)

    def summary(self) -> dict[str, Any]:
        """All files seen, and the libraries and packages loaded now."""
        mapped = mapped_files()
        return {
            "files_read": [*self.read],
            "files_written": [*self.written],
            "files_mapped": [name for name in mapped if not name.endswith(UNINTERESTING)],
            "libraries": sorted(n for n in {*self.libraries, *mapped} if _is_foreign(n)),
            "packages": imported_packages(),
        }


_listening: list[Provenance] = []


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook that Python calls."""
    for provenance in _listening:
        provenance.heard(event, arguments)


@cache
def _add_audit_hook() -> None:
    sys.addaudithook(audit)


def mapped_files() -> list[str]:
    """Files mapped into memory, which may have been opened outside Python."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    names = {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}
    return sorted(n for n in names if n.startswith("/") and not n.startswith(SYSTEM_FOLDERS))


def imported_packages() -> dict[str, str]:
    """Version of every installed distribution with a loaded module.

    >>> "numpy" in imported_packages()
    True
    """
    tops = {name.partition(".")[0] for name in sys.modules}
    found = {}
    for module, distributions in importlib.metadata.packages_distributions().items():
        if module in tops:
            for distribution in distributions:
                found[distribution] = importlib.metadata.version(distribution)
    return dict(sorted(found.items()))


def _is_users_doing(frame: FrameType | None) -> bool:
    """Whether the user's code makes this call, not a library during its import."""
    while frame is not None:
        filename = frame.f_code.co_filename
        if filename.startswith("<frozen importlib"):
            return False
        if not is_library(filename):
            return True
        frame = frame.f_back
    return False


def _is_foreign(name: str) -> bool:
    """A shared library that did not come with an installed package."""
    own = (sys.prefix, sys.base_prefix)
    return ".so" in Path(name).name and not is_library(name) and not name.startswith(own)


def _absolute(name: str) -> str:
    try:
        return os.path.abspath(name)  # noqa: PTH100  # resolve() would follow links
    except OSError:
        return name
