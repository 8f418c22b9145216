"""Lines of the user's code that freeze parameters.

Setting an attribute of a tensor leaves no trace at run time. Where parameters are found frozen, the
lines that can have done it are in the sources: they tell where, never whether.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from lossleuth.places import is_library

LARGEST = 1 << 20


def freezing_place() -> str | None:
    """The only such line in imported user code, as file:line; None unless there is exactly one.

    Which of several has frozen a parameter would be a guess.
    """
    files = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    mine = sorted(name for name in files if name.endswith(".py") and not is_library(name))
    found = [f"{name}:{line}" for name in mine for line in freezing_lines(_text(name))]
    return found[0] if len(found) == 1 else None


def freezing_lines(source: str) -> list[int]:
    """Line numbers of statements that freeze parameters.

    >>> freezing_lines("for p in m.parameters():\\n    p.requires_grad = False")
    [2]
    >>> freezing_lines("head.requires_grad_(False); w.requires_grad_()")
    [1]
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr))
    return sorted({node.lineno for node in nodes if _freezes(node)})


def _freezes(node: ast.stmt | ast.expr) -> bool:
    if isinstance(node, ast.Assign):
        named = [t for t in node.targets if isinstance(t, ast.Attribute)]
        off = any(target.attr == "requires_grad" for target in named)
        return off and not _is_true(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        given = [*node.args, *(k.value for k in node.keywords)]
        return node.func.attr == "requires_grad_" and any(not _is_true(g) for g in given)
    return False


def _is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _text(name: str) -> str:
    try:
        path = Path(name)
        return path.read_text(encoding="utf-8") if path.stat().st_size <= LARGEST else ""
    except (OSError, ValueError):
        return ""
