"""Packages that may be absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lossleuth.record import extras
from lossleuth.types.errors import BadInput


def test_a_package_that_is_there_is_imported() -> None:
    assert extras.load("json.decoder", "parquet").JSONDecoder


def test_an_absent_package_is_refused_with_the_install_line() -> None:
    with pytest.raises(BadInput) as caught:
        extras.load("no_such_package.inner", "wandb")
    assert caught.value.expected == "the package no_such_package"
    assert caught.value.found == "it is not installed"
    assert caught.value.remedy == "pip install 'lossleuth[wandb]'"


def test_a_broken_package_is_named_as_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_extra.py").write_text("import missing_inside")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match=r"cannot be imported \(No module named 'missing_inside'\)"):
        extras.load("broken_extra", "parquet")
    assert "broken_extra" not in sys.modules
