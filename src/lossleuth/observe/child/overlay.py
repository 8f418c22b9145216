"""Keeps what a run writes away from the user's files.

On Linux a process may see a folder through an overlay of its own: it reads what is there, and what
it writes goes to a scratch folder. Where the kernel does not allow that, the run goes on without.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_NEWUSER, _NEWNS = 0x10000000, 0x00020000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_DETACH = 2


def protect(folders: list[str], scratch: str, kept: str) -> str | None:
    """Let this process write to `scratch` in place of `folders`; the folder `kept` stays real.

    None if it worked, else the reason why the folders are not protected. Call it early: a process
    with several threads may not do this.
    """
    if not sys.platform.startswith("linux"):
        return f"overlays need Linux, not {sys.platform}"
    wanted = _outermost([os.path.realpath(folder) for folder in folders])
    for folder in wanted:
        if folder == "/" or _has_mounts_below(folder) or any(c in folder for c in ",:\\"):
            return f"{folder} cannot be overlaid"
    libc, here = _libc(), Path.cwd()
    user, group = os.getuid(), os.getgid()
    try:
        _checked(libc.unshare(_NEWUSER | _NEWNS), "unshare")
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
        _mount(libc, None, "/", None, _REC | _PRIVATE, None)
        _overlay(wanted, scratch, kept)
        # The working directory is still the one below the overlay.
        os.chdir(here)
    except OSError as error:
        return _reason(error)
    return None


def protect_fork(folders: list[str], before: str, scratch: str, kept: str) -> str | None:
    """In a fork of a protected process, write to `scratch` from now on.

    What was written until then, to the folder `before`, is still to be seen.
    """
    libc, here = _libc(), Path.cwd()
    wanted = _outermost([os.path.realpath(folder) for folder in folders])
    try:
        _checked(libc.unshare(_NEWNS), "unshare")
        for folder in wanted:
            _checked(libc.umount2(os.fsencode(folder), _DETACH), f"unmount {folder}")
        _overlay(wanted, scratch, kept, before)
        os.chdir(here)
    except OSError as error:
        return _reason(error)
    return None


def _overlay(wanted: list[str], scratch: str, kept: str, before: str | None = None) -> None:
    """See folders through overlays; on OSError none of them is left."""
    libc, mounted = _libc(), list[str]()
    # Open it now: a folder of the previous namespace cannot be bound later.
    real = os.open(kept, os.O_PATH)
    try:
        for number, folder in enumerate(wanted):
            upper, work = Path(scratch, f"written{number}"), Path(scratch, f"work{number}")
            upper.mkdir(parents=True)
            work.mkdir()
            below = folder if before is None else f"{Path(before, upper.name)}:{folder}"
            options = f"lowerdir={below},upperdir={upper},workdir={work}"
            _mount(libc, "overlay", folder, "overlay", 0, options)
            mounted.append(folder)
            inside = Path(os.path.realpath(kept))
            if inside.is_relative_to(folder):
                _mount(libc, f"/proc/self/fd/{real}", str(inside), None, _BIND, None)
    except OSError:
        for folder in reversed(mounted):
            libc.umount2(os.fsencode(folder), _DETACH)
        raise
    finally:
        os.close(real)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _reason(error: OSError) -> str:
    return f"{error.strerror or error} ({error.filename or 'the kernel'})"


def _outermost(folders: list[str]) -> list[str]:
    """Drop folders that lie inside others.

    >>> _outermost(["/a/b", "/a", "/c", "/a"])
    ['/a', '/c']
    """
    found: list[str] = []
    for folder in sorted(set(folders)):
        if not any(Path(folder).is_relative_to(other) for other in found):
            found.append(folder)
    return found


def _has_mounts_below(folder: str) -> bool:
    """Something mounted inside a folder would not be seen through an overlay."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return True
    points = [line.split()[4] for line in lines]
    return any(p != folder and Path(p).is_relative_to(folder) for p in points)


def _mount(
    libc: ctypes.CDLL,
    source: str | None,
    target: str,
    kind: str | None,
    flags: int,
    options: str | None,
) -> None:
    encoded = [None if s is None else os.fsencode(s) for s in (source, target, kind, options)]
    result = libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _checked(result, f"mount on {target}")


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
