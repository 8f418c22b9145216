"""The libraries a script imports, so that its next runs can start with them loaded.

Importing torch and a model library takes seconds, and a verdict takes a dozen runs. The first run
says here what it has imported; a process that has the same can be forked for the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lossleuth.files import replace_file
from lossleuth.places import is_library
from lossleuth.run_directory import IMPORTS as FILE

OWN = "lossleuth"


def note_imports(directory: Path) -> None:
    """Write the modules loaded in this process, in the order of their import."""
    names = {"library": without_parents(_library_modules()), "own": strangers()}
    with replace_file(directory / FILE) as stream:
        stream.write(json.dumps(names).encode())


class Imports(NamedTuple):
    """Modules of libraries, and the user's own."""

    library: list[str]
    own: list[str]


def noted_imports(directory: Path) -> Imports | None:
    """The list that a run has written, or None if there is none yet."""
    try:
        names = json.loads((directory / FILE).read_bytes())
        found = Imports(names["library"], names["own"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    sound = all(isinstance(part, list) and all(isinstance(n, str) for n in part) for part in found)
    return found if sound else None


def without_parents(names: Iterable[str]) -> list[str]:
    """Drop a package if one of its modules is listed: importing that imports the package.

    >>> without_parents(["torch", "torch.nn", "json"])
    ['torch.nn', 'json']
    """
    kept = list(names)
    parents = {name[:end] for name in kept for end, letter in enumerate(name) if letter == "."}
    return [name for name in kept if name not in parents]


def strangers() -> list[str]:
    """Loaded modules that belong to no library, and so to the user."""
    return [name for name, file in _files() if not is_library(file)]


def _library_modules() -> list[str]:
    found = [name for name, file in _files() if is_library(file)]
    return [name for name in found if name != OWN and not name.startswith(f"{OWN}.")]


def _files() -> list[tuple[str, str]]:
    """Modules that were loaded from a file under the name they are found by."""
    found = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        origin = getattr(spec, "origin", None)
        if getattr(spec, "name", None) == name and isinstance(origin, str) and "/" in origin:
            found.append((name, origin))
    return found
