"""Suggest a fix as an edit of the user's source, where no guessing is needed.

The fix of a cause looks at the syntax of the faulty line and gives up unless it knows the pattern.
The edited file must parse before the edit is shown.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lossleuth.catalogue import causes
from lossleuth.report.document.blocks import Diff
from lossleuth.report.document.sources import format_where, lines_of
from lossleuth.types.cause import Edit
from lossleuth.types.judgement import Judgement


def suggested_fix(identifier: str, judgement: Judgement) -> Diff | None:
    """The edit of one line that removes the fault; None if there is none without guessing."""
    where = judgement.where
    if where is None or where.file is None or where.line is None:
        return None
    lines = lines_of(where.file)
    fix = next((cause.fix for cause in causes() if cause.id == identifier), None)
    if fix is None or not 1 <= where.line <= len(lines):
        return None
    source = "\n".join(lines)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    line = lines[where.line - 1]
    edits = [edit for node in _expressions_on(tree, where.line) for edit in fix(node, judgement)]
    # With two candidates on one line, we would have to guess.
    if len(edits) != 1:
        return None
    changed = _changed(line, edits[0])
    if changed is None or not _parses([*lines[: where.line - 1], changed, *lines[where.line :]]):
        return None
    before = lines[max(0, where.line - 2) : where.line - 1]
    after = lines[where.line : where.line + 1]
    diff = [*(f" {x}" for x in before), f"-{line}", f"+{changed}", *(f" {x}" for x in after)]
    return Diff(format_where(where), diff)


def _expressions_on(tree: ast.AST, line: int) -> list[ast.expr]:
    """The expressions that start and end on that line."""
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
