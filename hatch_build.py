"""Builds the native kernels into the package; where that fails the package stays pure Python."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # the tests call `build` where hatchling is not installed
    BuildHookInterface = object

KERNELS = Path("src") / "lossleuth" / "native"
SOURCES = (
    *("statistics.cpp", "calls.cpp", "tokens.cpp", "ngrams.cpp"),
    *("losses.cpp", "divergence.cpp", "summation.cpp"),
)
# No -ffast-math: it would let the compiler assume that there is no NaN. The two permissions given
# concern errno and traps only; -fopenmp-simd lets the marked sums be taken in vector order.
FLAGS = (
    *("-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"),
    *("-shared", "-fPIC", "-fvisibility=hidden", "-pthread"),
)
ONE_LEVEL = "-DLOSSLEUTH_ONE_LEVEL"
# Functions of Python itself (`calls.cpp`), whose symbols the interpreter has.
PYTHON = ("-DLOSSLEUTH_PYTHON", f"-I{sysconfig.get_path('include')}") + (
    ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()
)


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]  # untyped base
    """Runs before a wheel, an editable one too, is put together."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell the wheel what it now holds."""
        folder = Path(self.root) / KERNELS
        reason = build(folder)
        names = names_of(folder)
        build_data["artifacts"] += [f"/{KERNELS.as_posix()}/{names.ABSENCE}"]
        if reason is not None:
            self.app.display_warning(f"lossleuth without native kernels: {reason}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"] += [f"/{KERNELS.as_posix()}/{names.LIBRARY}"]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"


def build(folder: Path) -> str | None:
    """Compile the sources in `folder` into a library beside them; None, or why there is none.

    A reason is also left as a note, since installers hide what a build says; a library from
    before is removed, since it would not match.
    """
    names = names_of(folder)
    library, note = folder / names.LIBRARY, folder / names.ABSENCE
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as temporary:
        made = Path(temporary) / names.LIBRARY
        reason = _compile(folder, made, names)
        if reason is None:
            # A new file, not new content: processes that use the old library keep it.
            made.replace(library)
            note.unlink(missing_ok=True)
        else:
            library.unlink(missing_ok=True)
            note.write_text(reason + "\n", encoding="utf-8")
    return reason


def names_of(folder: Path) -> ModuleType:
    """`library.py` of the package that is being built, which is not installed yet."""
    spec = importlib.util.spec_from_file_location("lossleuth_native", folder / "library.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compile(folder: Path, made: Path, names: ModuleType) -> str | None:
    compiler = _compiler()
    if compiler is None:
        return "no C++ compiler was found when it was installed"
    checksum = names.checksum(folder)
    command = [*compiler, *FLAGS, f"-DLOSSLEUTH_SOURCE={checksum}u", "-o", str(made)]
    command += [*(str(folder / source) for source in SOURCES), "-ldl"]
    reason = None
    # Then without Python's headers, which are not everywhere; last without code for several
    # processor levels, which some C libraries cannot load.
    for extra in (PYTHON, [], [ONE_LEVEL]):
        reason = _run([*command, *extra]) or _cannot_load(made, checksum, names)
        if reason is None:
            return None
    return reason


def _compiler() -> list[str] | None:
    named = os.environ.get("CXX", "").split()
    if named:
        return named
    found = next(filter(None, map(shutil.which, ("g++", "c++", "clang++"))), None)
    return [found] if found else None


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the C++ compiler did not work: {error}"
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
    return f"{Path(command[0]).name} failed: {errors[0].strip()}"


def _cannot_load(made: Path, checksum: int, names: ModuleType) -> str | None:
    try:
        found = names.Library(made).source()
    except names.Unusable as error:
        return str(error)
    return None if found == checksum else f"it says that its source is {found:#x}"
