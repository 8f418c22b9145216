"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lossleuth.types.errors import BadInput


@contextlib.contextmanager
def replace_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name when the block succeeds.

    On any failure, a full disk or Ctrl-C included, the old file stays as it was and nothing
    else is left behind.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replace_path(folder / "a.txt") as temporary:
    ...     _ = temporary.write_text("whole")
    >>> [found.name for found in folder.iterdir()]
    ['a.txt']
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Like `replace_path`, with the temporary file already open for writing."""
    with replace_path(path) as temporary, temporary.open("wb") as stream:
        yield stream


def make_directory(path: Path) -> None:
    """Make a directory that can be written to, or say why not."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".write-test.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise BadInput(
            "a directory that can be written to",
            f"{path}: {error.strerror}",
            "choose another with --out",
        ) from None
