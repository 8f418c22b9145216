"""Digests of code: a changed word costs nothing, a changed probe does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lossleuth.labs.lab import sources

SOURCE = '''"""A module."""

LIMIT = 3  # of something


class Thing:
    """A thing."""

    def half(self, x: float) -> float:
        """Half of it."""
        return x / 2
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A module.", "Another."),
        ("of something", "of all"),
        ("Half of it.", "50 %."),
        ("\n\n", "\n"),
    ],
)
def test_words_and_layout_do_not_count(old: str, new: str) -> None:
    assert sources.code_of(SOURCE.replace(old, new)) == sources.code_of(SOURCE)


@pytest.mark.parametrize(("old", "new"), [("x / 2", "x / 3"), ("LIMIT = 3", "LIMIT = 4")])
def test_code_does(old: str, new: str) -> None:
    assert sources.code_of(SOURCE.replace(old, new)) != sources.code_of(SOURCE)


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("probes/model/leaks.py", True),
        ("causes/reasoning.py", True),
        ("tape/replay/replay.py", True),
        ("interventions/optimizer/scale_lr.py", True),
        ("native/statistics.cpp", True),
        ("report/render/html.py", False),
    ],
)
def test_the_pipeline_is_what_verdicts_depend_on(
    file: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sources.pipeline()
    package = tmp_path / "lossleuth"
    shutil.copytree(sources.PACKAGE, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    monkeypatch.setattr(sources, "PACKAGE", package)
    assert sources.pipeline.__wrapped__() == before
    with (package / file).open("a") as stream:
        stream.write("\nint another = 1;\n" if file.endswith(".cpp") else "\nanother = 1\n")
    assert (sources.pipeline.__wrapped__() != before) is counts
