"""Finding, refusing and switching off the native library."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import need_native

from lossleuth.native import library as native


def copy_of_kernels(to: Path) -> Path:
    for file in native.FOLDER.iterdir():
        if file.suffix in (".py", ".cpp", ".h", ".so"):
            shutil.copy(file, to)
    return to


def test_the_library_is_loaded_or_its_absence_explained() -> None:
    assert (native.load() is None) == (native.why_absent() is not None)


@pytest.fixture
def afresh() -> Iterator[None]:
    """As in a process that has not asked for the library yet."""
    native.load.cache_clear()
    native._found.cache_clear()
    yield
    native.load.cache_clear()
    native._found.cache_clear()


def test_the_switch_turns_it_off(afresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.SWITCH, "0")
    assert native.load() is None
    assert native.why_absent() == "switched off by LOSSLEUTH_NATIVE=0"


def test_any_other_value_of_the_switch_leaves_it_on(
    afresh: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_native()
    monkeypatch.setenv(native.SWITCH, "1")
    assert native.load() is not None


def test_a_library_that_was_never_built_is_told(tmp_path: Path) -> None:
    with pytest.raises(native.Unusable, match="it was never built; with a C\\+\\+ compiler"):
        native.open_library(tmp_path)


def test_the_note_of_the_build_is_told(tmp_path: Path) -> None:
    (tmp_path / native.ABSENCE).write_text("no C++ compiler was found when it was installed\n")
    with pytest.raises(native.Unusable, match="no C\\+\\+ compiler was found"):
        native.open_library(tmp_path)


def test_a_library_of_other_sources_is_refused(tmp_path: Path) -> None:
    need_native()
    copy_of_kernels(tmp_path)
    assert native.open_library(tmp_path).source() == native.checksum()
    with (tmp_path / "statistics.cpp").open("a") as stream:
        stream.write("// changed\n")
    with pytest.raises(native.Unusable, match="built from other sources"):
        native.open_library(tmp_path)


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / native.LIBRARY).write_text("not a library")
    with pytest.raises(native.Unusable, match="cannot be loaded"):
        native.open_library(tmp_path)
