"""The line of a function that makes one of its results."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from types import CodeType


def line_of_result(code: CodeType, position: int) -> int | None:
    """Where the result at that position is computed: its last assignment, else the return.

    >>> def pair(x):
    ...     double = 2 * x
    ...     return double, x
    >>> line_of_result(pair.__code__, 0) is None  # a docstring's code stands in no file
    True
    """
    function = _function(code.co_filename, code.co_firstlineno)
    if function is None:
        return None
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    if not returns:
        return None
    last = max(returns, key=lambda node: node.lineno)
    value = last.value
    if isinstance(value, ast.Tuple):
        value = value.elts[position] if position < len(value.elts) else None
    if value is None:
        return last.lineno
    names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]
    if not isinstance(value, ast.Name) or not names:
        return value.lineno
    statements = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
    lines = [node.lineno for node in statements if _assigns(node, names[0])]
    before = [line for line in lines if line <= last.lineno]
    return max(before, default=value.lineno)


def assigned_by(node: ast.stmt) -> list[ast.AST]:
    """All parts of what a statement assigns to; none where it assigns nothing.

    >>> [type(part).__name__ for part in assigned_by(ast.parse("self.x = 1").body[0])][:2]
    ['Attribute', 'Name']
    """
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    return [part for target in targets for part in ast.walk(target)]


def _assigns(node: ast.stmt, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in assigned_by(node))


@cache
def _parsed(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _function(file: str, line: int) -> ast.FunctionDef | None:
    tree = _parsed(file)
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            # Decorators count as the function's beginning.
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first <= line <= node.lineno:
                return node
    return None
