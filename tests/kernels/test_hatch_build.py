"""The build of the library: with and without a compiler, and mutants that the checks catch."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from optimizer_steps import MADE, check_both_ways, give_gradients, weights
from slow_statistics import case, check_case, measure

from lossleuth.native import library as native
from lossleuth.native.handles import handles
from lossleuth.native.optimizer_pass import OptimizerPass
from lossleuth.native.tokens import count_supervised, token_fingerprint

ROOT = Path(__file__).parents[2]


def load_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hook = load_hook()


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The package's native sources, without a library."""
    folder = tmp_path / hook.KERNELS
    folder.mkdir(parents=True)
    for file in native.FOLDER.iterdir():
        if file.suffix in (".py", ".cpp", ".h"):
            shutil.copy(file, folder)
    return folder


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile quickly: plain code for one processor level."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    monkeypatch.delenv("CXX", raising=False)
    flags = [flag for flag in hook.FLAGS if flag != "-O3"]
    monkeypatch.setattr(hook, "FLAGS", (*flags, "-O0", hook.ONE_LEVEL))


def test_the_library_is_built_beside_its_sources(sources: Path, fast: None) -> None:
    (sources / native.ABSENCE).write_text("from before")
    assert hook.build(sources) is None
    assert native.open_library(sources).source() == native.checksum()
    left = {file.name for file in sources.iterdir()} - {f.name for f in native.FOLDER.iterdir()}
    assert left <= {native.LIBRARY}


def test_without_pythons_headers_it_is_called_through_ctypes(
    sources: Path, fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sources / "losses.cpp").write_text(EMPTY)
    (sources / "divergence.cpp").write_text("")
    monkeypatch.setattr(hook, "PYTHON", ("-DLOSSLEUTH_PYTHON", "-I."))
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", "")
    assert hook.build(sources) is None
    library = native.open_library(sources)
    assert library.calls is None
    monkeypatch.setattr(native, "load", lambda: library)
    assert handles() is None
    check_all()
    tokens = torch.tensor([[5, 6, 7], [1, 2, -100]])
    assert token_fingerprint(tokens[:, :2]) == token_fingerprint(tokens[:, :2].clone())
    assert count_supervised(tokens, -100) == 5


def test_without_a_compiler_the_package_is_pure_and_says_so(
    sources: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (sources / native.LIBRARY).write_text("from before, when there was one")
    reason = hook.build(sources)
    assert reason == "no C++ compiler was found when it was installed"
    assert not (sources / native.LIBRARY).exists()
    with pytest.raises(native.Unusable, match="no C\\+\\+ compiler was found"):
        native.open_library(sources)


def test_such_a_package_works_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "lossleuth"
    shutil.copytree(
        native.FOLDER.parent, package, ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hook.build(package / "native") is not None
    program = (
        "import torch; from lossleuth.native import library as native;"
        "from lossleuth.native.statistics import ParameterPass;"
        "print(native.__file__); print(native.why_absent());"
        "p = [torch.ones(2)]; print(ParameterPass(p).before_update(p, p)[0, 0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    where, why, total = done.stdout.splitlines()
    assert where.startswith(str(tmp_path)) and total == "2.0"
    assert why.startswith("no C++ compiler was found when it was installed")


def test_a_compiler_that_fails_is_quoted(
    sources: Path, fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sources / "tokens.cpp").write_text("this is no program")
    reason = hook.build(sources)
    assert reason is not None and reason.startswith("g++ failed:") and "error" in reason
    monkeypatch.setenv("CXX", "no-such-compiler --flag")
    assert "the C++ compiler did not work" in str(hook.build(sources))


def run_hook(root: Path) -> tuple[dict[str, Any], list[str]]:
    warnings: list[str] = []
    data: dict[str, Any] = {"artifacts": [], "pure_python": True}
    this = SimpleNamespace(root=str(root), app=SimpleNamespace(display_warning=warnings.append))
    hook.CustomBuildHook.initialize(this, "standard", data)
    return data, warnings


def test_a_wheel_with_the_library_is_tagged_for_its_platform(
    sources: Path, fast: None, tmp_path: Path
) -> None:
    data, warnings = run_hook(tmp_path)
    assert warnings == [] and data["pure_python"] is False
    assert data["tag"].startswith("py3-none-") and "any" not in data["tag"]
    assert f"/{hook.KERNELS.as_posix()}/{native.LIBRARY}" in data["artifacts"]


def test_a_wheel_without_it_stays_pure(
    sources: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    data, warnings = run_hook(tmp_path)
    assert data["pure_python"] is True and "tag" not in data
    assert warnings == [
        "lossleuth without native kernels: no C++ compiler was found when it was installed"
    ]


def check_all() -> None:
    """What a mutant must not survive; a small part of the tests of the statistics."""
    for dtype in (torch.float32, torch.float16):
        c = case(dtype, 3000)
        c["gradient"][7], c["after"][8] = float("nan"), float("inf")
        c["gradient"][9] = 1e-7
        check_case(c)
        check_case({**c, "second": None})
    large = case(count=1_100_001)
    check_case(large, every=1, threads=2)
    assert measure(large, threads=1).tobytes() == measure(large, threads=2).tobytes()
    if handles() is None:
        return
    check_both_ways(MADE["Adam in groups"])
    parameters = weights()
    give_gradients(parameters, 0)
    measured = OptimizerPass(parameters)
    others = [*parameters[:3], torch.nn.Parameter(torch.ones(3, 4))]
    assert not measured.before_step(parameters, [{"params": others}])
    parameters[0].grad = torch.ones(40, 60)[:, :50]
    assert not measured.before_step(parameters, [{"params": parameters}])


MUTANTS = {
    "zeros are not counted": ("loops.h", "if (smallest == 0)", "if (smallest == 1)"),
    "non-finite gradients are not counted": ("loops.h", "if (largest > Bits", "if (largest < Bits"),
    "non-finite weights are not counted": ("loops.h", "if (weights - weights != 0)", "if (false)"),
    "every update is swallowed": ("loops.h", "swallowed += p[i] == before[i]", "swallowed += true"),
    "squares in float32": ("loops.h", "const double change = now -", "const float change = now -"),
    "subnormal halves are lost": ("formats.h", "size < 0x400u ? subnormal", "false ? subnormal"),
    "a span is left out": ("threads.h", "job(i, worker);", "if (i) job(i, worker);"),
    "the copy is shifted": ("statistics.cpp", "slot + done, n", "slot, n"),
    "all are of one age": ("updates.h", "i && ages[i] == ages[i - 1]", "i"),
    "epsilon is not corrected": ("updates.h", "ages[i] > 0 ?", "false ?"),
    "one moment is the other": ("updates.h", "locate(second.data()", "locate(first.data()"),
    "other parameters will do": ("updates.h", "!= parameters[next]) return", "== groups) return"),
    "gaps are read": ("tensors.h", " && !place.has_gaps()", ""),
}


# The losses have mutants of their own (`test_founding_suite.py`) and need not be compiled here.
EMPTY = '#include "dispatch.h"\n' + "".join(
    f"EXPORTED void lossleuth_{name}() {{}}\n"
    for name in ("supervised", "cross_entropy", "divergence")
)


@pytest.mark.parametrize("mutant", [None, *MUTANTS])
def test_a_planted_fault_is_caught(
    mutant: str | None, sources: Path, fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sources / "losses.cpp").write_text(EMPTY)
    (sources / "divergence.cpp").write_text("")
    if mutant is not None:
        name, right, wrong = MUTANTS[mutant]
        text = (sources / name).read_text()
        assert right in text
        (sources / name).write_text(text.replace(right, wrong))
    assert hook.build(sources) is None
    library = native.open_library(sources)
    monkeypatch.setattr(native, "load", lambda: library)
    if mutant is None:
        check_all()
    else:
        with pytest.raises(AssertionError):
            check_all()
