"""The README is short, and its figures and its example are those of the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LONGEST = 150


def test_it_is_read_in_a_few_minutes() -> None:
    assert README.count("\n") <= LONGEST


def test_the_figures_of_the_lab_are_those_of_its_table() -> None:
    table = (ROOT / "docs" / "lab" / "table.md").read_text(encoding="utf-8")
    figures = re.search(r"(\d+ of \d+) cells are right; (\d+ of \d+) faults", table)
    assert figures is not None
    said = " ".join(README.split())
    assert re.findall(r"(\d+ of \d+) (?:cells|faults)", said) == list(figures.groups())


def test_the_transcript_shows_the_line_of_its_example() -> None:
    (name,) = set(re.findall(r"docs/examples/(\w+\.py)", README))
    lines = (ROOT / "docs" / "examples" / name).read_text(encoding="utf-8").splitlines()
    shown = re.search(rf"at {name}:(\d+)\n.*\n   >\s+(\d+) (.*)\n", README)
    assert shown is not None
    assert shown[1] == shown[2]
    assert lines[int(shown[1]) - 1].startswith(shown[3])


def test_every_extra_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = README.partition("| extra |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`(?=[ ,])", table)) >= set(project["optional-dependencies"])
