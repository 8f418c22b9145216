"""A finding of any kind, with the same number in every place that has one."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from lossleuth.findings.finding import Finding, kinds

F = TypeVar("F", bound=Finding)


def finding(kind: type[F], number: float) -> F:
    """One of a kind; what may be missing is there."""
    made: F = _made(kind, number)
    return made


def every_kind(number: float) -> list[Finding]:
    """One of each kind."""
    return [finding(kind, number) for kind in kinds().values()]


def _made(kind: Any, number: float) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        given = {f.name: _made(hints[f.name], number) for f in fields(kind)}
        return kind(**given | ({"untested": None} if "untested" in given else {}))
    if origin in (Union, types.UnionType):
        return _made(arguments[0], number)
    if origin is Literal:
        return arguments[0]
    if origin is tuple and arguments[-1] is not ...:
        return tuple(_made(argument, number) for argument in arguments)
    if origin in (tuple, list, Sequence):
        return (tuple if origin is tuple else list)([_made(arguments[0], number)])
    if origin in (dict, Mapping):
        return {_made(arguments[0], 1): _made(arguments[1], number)}
    return {float: number, int: 8, str: "train.py:12", bool: False}[kind]
