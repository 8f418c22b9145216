"""What a process has imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.observe.import_list import (
    FILE,
    note_imports,
    noted_imports,
    strangers,
    without_parents,
)

WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join)


@given(st.lists(WORDS, unique=True))
def test_importing_what_is_left_imports_all(names: list[str]) -> None:
    kept = without_parents(names)
    assert set(kept) <= set(names)
    assert all(any(k == name or k.startswith(f"{name}.") for k in kept) for name in names)


def test_libraries_are_noted_and_the_user_is_not(tmp_path: Path) -> None:
    (tmp_path / "helper_of_mine.py").write_text("")
    script = tmp_path / "main.py"
    script.write_text(
        "import helper_of_mine, numpy.linalg, sys\n"
        "from pathlib import Path\n"
        "from lossleuth.observe.import_list import note_imports\n"
        "note_imports(Path(sys.argv[1]))\n"
    )
    subprocess.run([sys.executable, script, tmp_path], check=True)
    found = noted_imports(tmp_path)
    assert found is not None
    assert found.own == ["helper_of_mine"]
    names = found.library
    assert "numpy.linalg._linalg" in names
    assert "numpy" not in names
    assert not [n for n in names if n.startswith(("lossleuth", "helper"))]


def test_a_module_of_the_user_is_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper_of_mine.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    module: ModuleType = __import__("helper_of_mine")
    try:
        assert "helper_of_mine" in strangers()
    finally:
        del sys.modules[module.__name__]


@pytest.mark.parametrize(
    "content", ["", "{", "{}", "[1]", '"torch"', '{"library": [1], "own": []}']
)
def test_what_is_no_list_of_names_counts_as_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    assert noted_imports(tmp_path) is None


def test_a_note_is_plain_json(tmp_path: Path) -> None:
    note_imports(tmp_path)
    found = noted_imports(tmp_path)
    assert found is not None
    assert json.loads((tmp_path / FILE).read_text()) == found._asdict()
