"""The reference of commands and of the Python API is what the code says."""

from __future__ import annotations

from pathlib import Path

import docs_scripts
import typer.main

import lossleuth
from lossleuth.cli import app

reference = docs_scripts.load("reference")


def test_the_pages_are_what_the_code_says() -> None:
    assert reference.stale() == [], "run `python docs/reference.py`"


def test_a_stale_or_missing_page_is_seen(tmp_path: Path) -> None:
    for name, text in reference.pages().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert reference.stale(tmp_path) == []
    (tmp_path / "cli.md").write_text("other", encoding="utf-8")
    (tmp_path / "python.md").unlink()
    assert reference.stale(tmp_path) == ["cli.md", "python.md"]


def test_every_verb_and_option_and_every_public_name_is_there() -> None:
    commands, python = reference.pages().values()
    verbs = {n: v for n, v in typer.main.get_group(app).commands.items() if not v.hidden}
    assert [name for name in verbs if f"### {name}\n" not in commands] == []
    options = {o for v in verbs.values() for p in v.params for o in p.opts if o.startswith("-")}
    assert [option for option in options if f"`{option}`" not in commands] == []
    assert [n for n in lossleuth.__all__ if f"### lossleuth.{n}\n" not in python] == []
