"""A cure as a change of the user's source, where that can be written without guessing.

Each fix of a cause looks at the syntax of the one line that is at fault, and gives up where it is
not exactly what it knows. What comes out is parsed again before it is shown.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lossleuth.catalogue import cause
from lossleuth.report.document.blocks import Diff
from lossleuth.report.document.sources import lines_of, told
from lossleuth.types.cause import Edit
from lossleuth.types.judgement import Judgement


def repair_of(identifier: str, judgement: Judgement) -> Diff | None:
    """The change of one line that undoes the fault; None where a sentence has to do."""
    where = judgement.where
    if where is None or where.file is None or where.line is None:
        return None
    lines = lines_of(where.file)
    fix = cause(identifier).fix
    if fix is None or not 1 <= where.line <= len(lines):
        return None
    source = "\n".join(lines)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    line = lines[where.line - 1]
    edits = [edit for node in _of_line(tree, where.line) for edit in fix(node, judgement)]
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
