"""What a verdict depends on, as digests of code: words in comments and docstrings do not count."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import lossleuth

PACKAGE = Path(lossleuth.__file__).parent
# From the observed process to the verdict. What only shows a verdict is left out.
PIPELINE = (
    *("types", "findings", "record", "native", "tape", "gradcheck", "probes", "interventions"),
    *("causes", "judge", "observe", "examiner"),
)


@cache
def pipeline() -> str:
    """Of all code that verdicts depend on, whatever the program is."""
    files = [file for part in PIPELINE for file in sorted((PACKAGE / part).rglob("*.py"))]
    native = sorted(p for p in (PACKAGE / "native").iterdir() if p.suffix in (".cpp", ".h"))
    found = hashlib.sha256(digest_of(files).encode())
    for file in native:
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def digest_of(files: Iterable[Path]) -> str:
    """Of the code in these files, one after the other."""
    found = hashlib.sha256()
    for file in files:
        found.update(code_of(file.read_text(encoding="utf-8")).encode())
    return found.hexdigest()[:16]


def code_of(source: str) -> str:
    """A source without comments, docstrings and layout.

    >>> code_of('def f(x):\\n    "Add one."\\n    return x+1') == code_of("def f(x): return x + 1")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            if first is not None and is_text and isinstance(first.value.value, str):  # type: ignore[attr-defined]  # an expression, as was asked
                node.body = node.body[1:]
    return ast.dump(tree)
