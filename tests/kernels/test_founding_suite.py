"""The founding suite passes on the kernels, and fails on every mutant of the native one."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from founding_suite import check_by_differences, check_by_reference, check_kernel

from lossleuth.kernels import cross_entropy_with_gradient
from lossleuth.native import library as native

# What is right in `losses.cpp`, what is wrong, and whether differences of the mutant's own loss
# show it: they cannot where loss and gradient are wrong in the same way. None where that depends on
# what was in memory before.
MUTANTS = {
    "no softmax term": ("scaled / sum,", "0,", True),
    "sign flipped past 1024": (
        "set(gradient, target, row.target);",
        "for (int64_t i = 1025; i < width; i++) set(gradient, i, -element(gradient, i));"
        "set(gradient, target, row.target);",
        True,
    ),
    "target + 1": ("problem.targets[i]", "((problem.targets[i] + 1) % problem.width)", False),
    "entries dropped when V is not a power of two": (
        "const int64_t width = problem.width, blocks",
        "const int64_t width = int64_t(1) << (63 - __builtin_clzll(problem.width)), blocks",
        None,
    ),
    "mask ignored": ("(mask == nullptr || mask[row] != 0)", "true", False),
    "count wrong": ("*count += counts;", "*count += 1;", False),
    "the target's gradient forgotten": ("set(gradient, target, row.target);", "", True),
    "a gradient that is off by a thousandth": (
        "const double scaled = problem.weight * inverse;",
        "const double scaled = problem.weight * inverse * 1.001;",
        True,
    ),
    "a block's own maximum forgotten": ("row.factor * scratch.sums[b]", "row.factor", True),
    "blocks added in float32": ("double others = 0;", "float others = 0;", True),
}


def mutated(folder: Path, mutant: str | None) -> SimpleNamespace:
    """The functions of `losses.cpp`, with a fault in its source."""
    for file in native.FOLDER.glob("*.h"):
        shutil.copy(file, folder)
    text = (native.FOLDER / "losses.cpp").read_text()
    if mutant is not None:
        right, wrong, _ = MUTANTS[mutant]
        assert right in text
        text = text.replace(right, wrong)
    (folder / "losses.cpp").write_text(text)
    command = ["g++", "-std=c++17", "-O0", "-shared", "-fPIC", "-DLOSSLEUTH_ONE_LEVEL"]
    command += ["-o", "losses.so", "losses.cpp", "-ldl", "-pthread"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "losses.so"))
    library.lossleuth_supervised.restype = ctypes.c_int64
    whole = [ctypes.c_int64] * 3
    pointer = ctypes.c_void_p
    library.lossleuth_supervised.argtypes = [pointer, pointer, *whole, pointer]
    library.lossleuth_cross_entropy.argtypes = [pointer, ctypes.c_int64, pointer]
    return SimpleNamespace(
        supervised=native.with_result(library.lossleuth_supervised, ctypes.c_int64),
        cross_entropy=native.with_result(library.lossleuth_cross_entropy, ctypes.c_double),
    )


def test_the_suite_passes(kernels: str) -> None:
    check_kernel(cross_entropy_with_gradient)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("mutant", [None, *MUTANTS])
def test_a_mutant_is_killed(
    mutant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = mutated(tmp_path, mutant)
    monkeypatch.setattr(native, "load", lambda: library)
    if mutant is None:
        check_kernel(cross_entropy_with_gradient)
        return
    with pytest.raises(AssertionError):
        check_by_reference(cross_entropy_with_gradient)
    seen = MUTANTS[mutant][2]
    if seen:
        with pytest.raises(AssertionError):
            check_by_differences(cross_entropy_with_gradient)
    elif seen is not None:
        check_by_differences(cross_entropy_with_gradient)
