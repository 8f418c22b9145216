"""Edits of a line of the user's source that undo a fault."""

from __future__ import annotations

import ast

from lossleuth.types.cause import Edit
from lossleuth.types.change import Change
from lossleuth.types.judgement import Judgement


def without_cut(node: ast.expr, _: Judgement) -> list[Edit]:
    """`x.detach()` and `x.data` become `x`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        bare = not node.args and not node.keywords
        return [(node, ast.unparse(node.func.value))] if node.func.attr == "detach" and bare else []
    if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
        return [(node, ast.unparse(node.value))]
    return []


def without_softmax(node: ast.expr, _: Judgement) -> list[Edit]:
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


def causal(node: ast.expr, _: Judgement) -> list[Edit]:
    """`is_causal=False` becomes `is_causal=True`."""
    return _flag(node, "is_causal", found=False)


def minimised(node: ast.expr, _: Judgement) -> list[Edit]:
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


def rescaled_rate(node: ast.expr, judgement: Judgement) -> list[Edit]:
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
