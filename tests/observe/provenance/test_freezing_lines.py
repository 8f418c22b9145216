"""Lines that switch gradients off."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from lossleuth.observe.provenance.freezing_lines import freezing_lines, freezing_place


@pytest.mark.parametrize(
    "line",
    [
        "p.requires_grad = False",
        "p.requires_grad = trained",
        "model.requires_grad_(False)",
        "model.requires_grad_(requires_grad=flag)",
        "a = b.requires_grad = False",
    ],
)
def test_a_line_that_may_freeze_is_found(line: str) -> None:
    assert freezing_lines(f"x = 1\n{line}\n") == [2]


@pytest.mark.parametrize(
    "line",
    [
        "p.requires_grad = True",
        "x = torch.zeros(3, requires_grad=False)",
        "model.requires_grad_()",
        "if p.requires_grad: pass",
        "def broken(:",
    ],
)
def test_other_lines_are_not(line: str) -> None:
    assert freezing_lines(line) == []


def test_the_line_is_known_only_where_there_is_just_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(name: str, text: str) -> None:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        module = types.ModuleType(name)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, name, module)

    # Files of the tests themselves are the user's too.
    for name, module in list(sys.modules.items()):
        if "tests" in str(getattr(module, "__file__", None)):
            monkeypatch.delitem(sys.modules, name)
    loaded("one", "x = 1\nmodel.requires_grad_(False)\n")
    assert freezing_place() == f"{tmp_path / 'one.py'}:2"
    loaded("two", "p.requires_grad = False\n")
    assert freezing_place() is None
    (tmp_path / "one.py").unlink()
    assert freezing_place() == f"{tmp_path / 'two.py'}:1"
