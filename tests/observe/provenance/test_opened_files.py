"""What a run was made of."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import numpy as np

from lossleuth.observe.provenance.opened_files import Provenance, imported_packages, mapped_files


def test_files_read_and_written_and_libraries_loaded_are_noted(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(b"1234")
    provenance = Provenance()
    provenance.listen()
    (tmp_path / "in.bin").read_bytes()
    np.fromfile(tmp_path / "in.bin", dtype=np.uint8)
    (tmp_path / "out.txt").write_text("x")
    ctypes.CDLL(None)
    provenance.stop()
    (tmp_path / "in.bin").rename(tmp_path / "later.bin")
    (tmp_path / "later.bin").read_bytes()
    summary = provenance.summary()
    assert str(tmp_path / "in.bin") in summary["files_read"]
    assert str(tmp_path / "out.txt") in summary["files_written"]
    assert str(tmp_path / "later.bin") not in summary["files_read"]
    assert not any(name.endswith(".py") for name in summary["files_read"])


def test_a_mapped_file_is_seen_even_if_no_python_call_opened_it(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    path.write_bytes(bytes(8192))
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ):
        assert str(path) in mapped_files()
    assert str(path) not in mapped_files()


def test_loaded_packages_have_their_versions() -> None:
    packages = imported_packages()
    assert packages["numpy"] == np.__version__
    assert "pip" not in packages


def test_a_library_of_the_system_is_not_the_scripts() -> None:
    found = Provenance()
    found.listen()
    ctypes.CDLL("libc.so.6")
    found.stop()
    assert found.libraries == {}
