"""Figures about the code itself: sizes, imports, untyped mappings, private torch.

`python -m bench house` prints them for this checkout; `LOSSLEUTH_HOUSE=folder` for another one.
"""

from __future__ import annotations

import ast
import os
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

SHOWN = 5
STRING_READ = re.compile(r'\.get\("[a-z_]+"|\["[a-z_]+"\]|probed\("')
STRING_MAP = re.compile(r"(?:dict|Mapping)\[str, Any\]")
PRIVATE = re.compile(r"\btorch(?:\.\w+)*\._[a-z]\w*")


def run(console: Console) -> None:
    root = Path(os.environ.get("LOSSLEUTH_HOUSE", "."))
    package = root / "src" / "lossleuth"
    files = sorted(package.rglob("*.py"))
    texts = {str(file.relative_to(package)): file.read_text(encoding="utf-8") for file in files}
    table = Table("what", "figure")
    for what, figure in figures(texts):
        table.add_row(what, figure)
    console.print(table)


def figures(texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    lengths = {name: text.count("\n") for name, text in texts.items()}
    yield "files, lines", f"{len(texts)}, {sum(lengths.values())}"
    yield "median length of a file", f"{statistics.median(lengths.values()):g}"
    yield "longest files", largest(lengths)
    trees = {name: ast.parse(text) for name, text in texts.items()}
    yield (
        "attributes of classes",
        largest(
            {
                f"{node.name} ({name})": len(attributes(node))
                for name, tree in trees.items()
                for node in ast.walk(tree)
                if isinstance(node, ast.ClassDef)
            }
        ),
    )
    yield (
        "modules of ours that a module imports",
        largest({n: fan_out(t) for n, t in trees.items()}),
    )
    whole = "\n".join(texts.values())
    yield "uses of Any", str(len(re.findall(r"\bAny\b", whole)))
    yield "mappings from strings to Any", str(len(STRING_MAP.findall(whole)))
    causes = "\n".join(text for name, text in texts.items() if name.startswith("causes/"))
    yield "string-keyed reads in causes", str(len(STRING_READ.findall(causes)))
    private = {name: len(PRIVATE.findall(text)) for name, text in texts.items()}
    outside = sum(count for name, count in private.items() if name != "torch_internals.py")
    yield "private torch names outside torch_internals.py, by text", str(outside)


def largest(numbers: dict[str, int]) -> str:
    order = sorted(numbers, key=lambda name: -numbers[name])[:SHOWN]
    return "\n".join(f"{numbers[name]} {name}" for name in order)


def attributes(node: ast.ClassDef) -> set[str]:
    """What a class sets on itself."""
    return {
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and isinstance(part.value, ast.Name)
        and part.value.id == "self"
    }


def fan_out(tree: ast.Module) -> int:
    """How many modules of ours a module imports."""
    return len(
        {
            node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lossleuth")
        }
    )
