"""Limits an assistant to files under the directory in which the server was started."""

from __future__ import annotations

from pathlib import Path

from lossleuth.run_directory import dated_directory
from lossleuth.types.errors import BadInput

# A directory with more entries is not a run.
MAX_ENTRIES = 100_000


class Fence:
    """Accepts paths under one directory, symbolic links followed, and refuses all others."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def file(self, given: str) -> Path:
        """A Python file to run; BadInput if it is not one, or lies outside."""
        path = self._inside(given, "a Python file")
        if not path.is_file():
            found = "a directory" if path.is_dir() else "no file"
            raise BadInput("a Python file", f"{found} at {given!r}", "check the path")
        return path

    def run(self, given: str) -> Path:
        """A run directory; BadInput if it is not one, or it or anything in it leads outside."""
        path = self._inside(given, "a run directory")
        if not path.is_dir():
            found = "a file" if path.exists() else "nothing"
            raise BadInput("a run directory", f"{found} at {given!r}", "give one under runs/")
        for number, entry in enumerate(path.rglob("*")):
            if number >= MAX_ENTRIES:
                found = f"more than {MAX_ENTRIES} files in {given!r}"
                raise BadInput("a run directory", found, "give one under runs/")
            if entry.is_symlink():
                self._inside(str(entry), "a run directory")
        return path

    def new_run(self) -> Path:
        """A new, empty run directory with a dated name."""
        wanted = self.root / dated_directory()
        self._inside(str(wanted), "a place for the run")
        directory, number = wanted, 1
        while True:
            try:
                directory.mkdir(parents=True)
                return directory
            except FileExistsError:
                number += 1
                directory = wanted.with_name(f"{wanted.name}-{number}")
            except OSError as error:
                found = f"{directory}: {error.strerror}"
                raise BadInput(
                    "a writable directory", found, "check disk space and permissions"
                ) from None

    def _inside(self, given: str, expected: str) -> Path:
        """The path with symbolic links resolved; BadInput if it leads outside."""
        try:
            path = (self.root / given).resolve()
        except (OSError, ValueError, RuntimeError):
            # A name that no file can have, or links that lead in a circle.
            raise BadInput(expected, f"no path in {given!r}", "check the path") from None
        if not path.is_relative_to(self.root):
            raise BadInput(
                f"{expected} under {self.root}",
                f"{given!r}, which is outside of it",
                "start `lossleuth mcp` in a directory that holds it",
            )
        return path
