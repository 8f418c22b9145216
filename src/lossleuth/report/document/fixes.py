"""A cure as a change of the user's source, where that can be written without guessing.

Each way of repair looks at the syntax of the one line that is at fault, and gives up where it is
not exactly what it knows. What comes out is parsed again before it is shown.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from lossleuth.report.document.blocks import Diff
from lossleuth.report.document.sources import lines_of, told
from lossleuth.types.change import Change
from lossleuth.types.judgement import Judgement

# An expression of one line, and what should stand in its place.
Edit = tuple[ast.expr, str]


def repair_of(identifier: str, judgement: Judgement) -> Diff | None:
    """The change of one line that undoes the fault; None where a sentence has to do."""
    where = judgement.where
    if where is None or where.file is None or where.line is None:
        return None
    lines = lines_of(where.file)
    way = WAYS.get(identifier)
    if way is None or not 1 <= where.line <= len(lines):
        return None
    source = "\n".join(lines)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    line = lines[where.line - 1]
    edits = [edit for node in _of_line(tree, where.line) for edit in way(node, judgement)]
    # Two candidates on one line: which of them is meant would be a guess.
    if len(edits) != 1:
        return None
    changed = _changed(line, edits[0])
    if changed is None or not _parses([*lines[: where.line - 1], changed, *lines[where.line :]]):
        return None
    before = lines[max(0, where.line - 2) : where.line - 1]
    after = lines[where.line : where.line + 1]
    shown = [*(f" {x}" for x in before), f"-{line}", f"+{changed}", *(f" {x}" for x in after)]
    return Diff(told(where), shown)


def _of_line(tree: ast.AST, line: int) -> list[ast.expr]:
    """The expressions that begin and end on that line."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.expr) and node.lineno == line and node.end_lineno == line
    ]


def _changed(line: str, edit: Edit) -> str | None:
    node, text = edit
    # Offsets of the syntax tree count bytes.
    data = line.encode()
    end = node.end_col_offset
    if end is None:
        return None
    return (data[: node.col_offset] + text.encode() + data[end:]).decode()


def _parses(lines: Sequence[str]) -> bool:
    try:
        ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return False
    return True


def _uncut(node: ast.expr, _: Judgement) -> list[Edit]:
    """`x.detach()` and `x.data` become `x`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        bare = not node.args and not node.keywords
        return [(node, ast.unparse(node.func.value))] if node.func.attr == "detach" and bare else []
    if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
        return [(node, ast.unparse(node.value))]
    return []


def _unsoftened(node: ast.expr, _: Judgement) -> list[Edit]:
    """`softmax(x, dim=-1)` and `x.softmax(-1)` become `x`."""
    if not isinstance(node, ast.Call):
        return []
    function = node.func
    if isinstance(function, ast.Name) and function.id == "softmax" and node.args:
        return [(node, ast.unparse(node.args[0]))]
    if not isinstance(function, ast.Attribute) or function.attr != "softmax":
        return []
    base = function.value
    if isinstance(base, ast.Name) and base.id in ("F", "torch", "functional") and node.args:
        return [(node, ast.unparse(node.args[0]))]
    return [(node, ast.unparse(base))] if len(node.args) + len(node.keywords) == 1 else []


def _masked(node: ast.expr, _: Judgement) -> list[Edit]:
    """`is_causal=False` becomes `is_causal=True`."""
    return _flag(node, "is_causal", found=False)


def _minimised(node: ast.expr, _: Judgement) -> list[Edit]:
    """`maximize=True` becomes `maximize=False`."""
    return _flag(node, "maximize", found=True)


def _flag(node: ast.expr, name: str, *, found: bool) -> list[Edit]:
    if not isinstance(node, ast.Call):
        return []
    return [
        (keyword.value, str(not found))
        for keyword in node.keywords
        if keyword.arg == name
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is found
    ]


def _rescaled(node: ast.expr, judgement: Judgement) -> list[Edit]:
    """A rate that stands on the line as a number, times the factor of the trial that helped."""
    change = judgement.harm.change if judgement.harm else Change("")
    factor = dict(change.options).get("factor")
    if change.name != "scale_lr" or not isinstance(factor, float | int) or factor <= 0:
        return []
    if not isinstance(node, ast.Call):
        return []
    return [
        (keyword.value, f"{keyword.value.value * factor:g}")
        for keyword in node.keywords
        if keyword.arg == "lr"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, float | int)
    ]


WAYS: dict[str, Callable[[ast.expr, Judgement], list[Edit]]] = {
    "graph_cut": _uncut,
    "double_softmax": _unsoftened,
    "future_leak": _masked,
    "ascent": _minimised,
    "lr_too_high": _rescaled,
    "lr_too_low": _rescaled,
}
