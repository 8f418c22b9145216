"""One writer for each log, held by a lock that ends with its process.

The lock is taken while the log is still empty, and a reader asks about the lock only once there
is a whole header, so that a reader's question can never turn a writer away.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from lossleuth.files import make_directory
from lossleuth.record import frames
from lossleuth.run_directory import RECORD
from lossleuth.types.errors import BadInput

_MAX_RUNS = 10_000
# A header torn by a crash is smaller; anything larger is somebody's data.
_MAX_TORN_HEADER_BYTES = 1 << 20
_TAKEN = (errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM)


def claim(directory: Path) -> tuple[Path, int]:
    """Make a run directory and open its log, empty and locked.

    Where a log already stands, or is being written, the directory becomes `<name>-2`, `-3` …

    >>> import tempfile
    >>> wanted = Path(tempfile.mkdtemp()) / "run"
    >>> first, second = claim(wanted), claim(wanted)
    >>> first[0].name, second[0].name
    ('run', 'run-2')
    >>> os.close(first[1]); os.close(second[1])
    """
    for candidate in itertools.islice(_names(directory), _MAX_RUNS):
        make_directory(candidate)
        try:
            descriptor = _open_own(candidate / RECORD)
        except OSError as error:
            raise BadInput(
                "room for a record", f"{candidate}: {error.strerror}", "choose another directory"
            ) from None
        if descriptor is not None:
            return candidate, descriptor
    raise BadInput(
        "a free name for the run", f"{_MAX_RUNS} runs called {directory}", "choose another name"
    )


def is_held(descriptor: int) -> bool:
    """Whether a living process is writing the log that is open here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _names(directory: Path) -> Iterator[Path]:
    yield directory
    for number in itertools.count(2):
        # Only an absolute path has a name for sure: "." has none.
        first = directory.resolve() if directory.name in ("", "..") else directory
        yield first.parent / f"{first.name}-{number}"


def _open_own(path: Path) -> int | None:
    """The log at `path`, emptied and locked; None if it is, or may be, somebody else's."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    made = True
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        made = False
        try:
            descriptor = os.open(path, flags)
        except OSError as error:
            if error.errno in _TAKEN:
                return None
            raise
    try:
        if _lock(descriptor, made) and _is_ours(descriptor, path):
            os.ftruncate(descriptor, 0)
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _lock(descriptor: int, made: bool) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: the file is ours only if we made it.
        return made
    return True


def _is_ours(descriptor: int, path: Path) -> bool:
    """Whether the locked file is still the one at `path` and holds no record."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or not os.path.samestat(found, path.stat()):
        return False
    if found.st_size > _MAX_TORN_HEADER_BYTES:
        return False
    remains = os.pread(descriptor, found.st_size, 0)
    if frames.OPENING.startswith(remains):
        return True
    if not remains.startswith(frames.OPENING):
        return False
    after = frames.scan(remains[len(frames.OPENING) :])
    return not after.frames and after.missing > 0
