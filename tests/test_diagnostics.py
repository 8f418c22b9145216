"""The table of diagnostics names commands, sections, causes and tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import typer.main

import lossleuth
from lossleuth.cli import app

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "src" / "lossleuth" / "report"
CAUSES = ROOT / "src" / "lossleuth" / "causes"
EIGHT = (
    *("Kahan summation", "softmax", "gradient statistics", "layer tracking"),
    *("Adam monitoring", "clipping monitor", "training log", "cross-entropy gradient"),
)


def rows() -> dict[str, tuple[str, str]]:
    """What is said of each diagnostic: where it is, and which test can fail."""
    text = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return {name: (shown, test) for name, shown, test in (row for row in cells if len(row) == 3)}


def titles_in(path: Path) -> set[str]:
    """Titles of sections that a file makes, as text or as a constant of the file."""
    text = path.read_text(encoding="utf-8")
    constants = dict(re.findall(r'^([A-Z_]+) = "(.*)"$', text, flags=re.MULTILINE))
    written = re.findall(r'Section\("([^"]+)"', text)
    named = re.findall(r"Section\(([A-Z_]+)\b", text)
    return {*written, *(constants[name] for name in named if name in constants)}


def missing(shown: str, test: str) -> list[str]:
    """What a row names and nobody has."""
    found = []
    known = typer.main.get_group(app).commands
    for command, words in re.findall(r"`lossleuth (\w+)([^`]*)`", shown):
        if command not in known:
            found.append(command)
            continue
        options = {option for p in known[command].params for option in p.opts}
        found += [o for o in re.findall(r"--\w+", words) if o not in options]
    sections = {title for path in REPORT.rglob("*.py") for title in titles_in(path)}
    for part in re.findall(r"report: ([^`]*)", shown):
        titles = re.sub(r"\([^)]*\)", "", part).split(",")
        found += [t for t in titles if t.strip() not in sections]
    found += [n for n in re.findall(r"`lossleuth\.(\w+)`", shown) if not hasattr(lossleuth, n)]
    found += [c for c in re.findall(r"\(`(\w+)`\)", shown) if not list(CAUSES.rglob(f"{c}.py"))]
    file, _, function = test.strip("`").partition("::")
    path = ROOT / file
    tree = ast.parse(path.read_text(encoding="utf-8") if path.is_file() else "")
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return found + [test] * (function not in names)


def test_all_eight_are_there() -> None:
    assert tuple(rows())[1:] == EIGHT


@pytest.mark.parametrize("name", EIGHT)
def test_a_diagnostic_names_what_exists(name: str) -> None:
    shown, test = rows()[name]
    assert re.search(r"`lossleuth[ .]", shown)
    assert missing(shown, test) == []


@pytest.mark.parametrize(
    "planted",
    [
        "`lossleuth magic`",
        "`lossleuth watch --magic`",
        "`lossleuth.magic`",
        "`lossleuth run` (`magic`)",
        "report: Magic (of all parameters)",
    ],
)
def test_a_planted_invention_is_seen(planted: str) -> None:
    test = "`tests/test_diagnostics.py::test_all_eight_are_there`"
    assert missing(planted, test) != []
    assert missing("`lossleuth watch`", test) == []
    assert missing("`lossleuth watch`", test.replace("all_eight", "all_nine")) != []
    assert missing("`lossleuth watch`", test.replace("diagnostics", "absent")) != []
