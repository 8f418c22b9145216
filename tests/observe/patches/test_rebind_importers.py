"""Names that modules took before we came."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from lossleuth.observe.patches.rebind_importers import reach_importers


def original() -> str:
    return "original"


def replacement() -> str:
    return "replacement"


@pytest.fixture
def importer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("an_importer")
    module.__dict__.update(taken=original, other=len)
    monkeypatch.setitem(sys.modules, "an_importer", module)
    return module


def test_a_name_taken_before_is_ours_and_is_given_back(importer: ModuleType) -> None:
    undo = reach_importers([(original, replacement)])
    assert importer.taken() == "replacement"
    assert importer.other is len
    undo()
    assert importer.taken() == "original"


def test_what_the_program_has_set_since_is_kept(importer: ModuleType) -> None:
    undo = reach_importers([(original, replacement)])
    importer.__dict__["taken"] = max
    undo()
    assert importer.taken is max


def test_the_module_that_made_a_function_is_no_importer() -> None:
    reach_importers([(original, replacement)])
    assert original() == "original"


def test_torch_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.invented")
    module.__dict__["taken"] = original
    monkeypatch.setitem(sys.modules, "torch.invented", module)
    reach_importers([(original, replacement)])
    assert module.taken() == "original"
