"""Dataclasses as plain values and back: the one serialiser of all that is stored.

Plain values are what JSON has: None, booleans, numbers, strings, lists, and mappings with string
keys. A number that JSON lacks stays a float here; the record knows how to spell it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class NotOfThisType(ValueError):
    """A stored value does not have the type that is expected of it."""


def to_plain(value: Any) -> Any:
    """A dataclass, or anything made of them, as plain values.

    >>> from lossleuth.types.judgement import Where
    >>> to_plain({1: (Where("train.py", 12),)})
    {'1': [['train.py', 12, None]]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], value: Any, *, lenient: bool = False) -> T:
    """A value of that type from its plain form; NotOfThisType if it is of another.

    Fields that are not known are left out, so that newer records can be read; fields that are
    missing have their defaults. A `lenient` reader, of what a user's program has set, takes the
    default also where a field is of another type.

    >>> from_plain(dict[int, tuple[float, ...]], {"1": [2, 3.5]})
    {1: (2.0, 3.5)}
    """
    made: T = _made(kind, value, kind.__name__, lenient)
    return made


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _made(kind: Any, value: Any, where: str, lenient: bool) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, where, lenient)
    if origin is Literal:
        return value if value in get_args(kind) else _refused(kind, value, where)
    if is_dataclass(kind):
        return _dataclass(kind, value, where, lenient)
    if origin in (tuple, list, Sequence):
        return _sequence(origin, get_args(kind), value, where, lenient)
    if origin in (dict, Mapping):
        key, item = get_args(kind)
        if not isinstance(value, Mapping):
            _refused(kind, value, where)
        return {
            _key(key, k, where): _made(item, v, f"{where}[{k}]", lenient) for k, v in value.items()
        }
    return _scalar(kind, value, where)


def _dataclass(kind: Any, value: Any, where: str, lenient: bool) -> Any:
    if not isinstance(value, Mapping):
        _refused(kind, value, where)
    hints = _types(kind)
    given = {}
    for f in fields(kind):
        if f.name in value:
            try:
                given[f.name] = _made(hints[f.name], value[f.name], f"{where}.{f.name}", lenient)
            except NotOfThisType:
                if not lenient:
                    raise
    try:
        return kind(**given)
    except TypeError as error:
        raise NotOfThisType(f"{where}: {error}") from None


def _one_of(kinds: tuple[Any, ...], value: Any, where: str, lenient: bool) -> Any:
    """The first type that fits; None only where it is allowed."""
    if value is None:
        return None if type(None) in kinds else _refused(kinds, value, where)
    for kind in kinds:
        if kind is not type(None):
            try:
                return _made(kind, value, where, lenient)
            except NotOfThisType:
                continue
    return _refused(kinds, value, where)


def _sequence(origin: Any, kinds: tuple[Any, ...], value: Any, where: str, lenient: bool) -> Any:
    if not isinstance(value, list | tuple):
        _refused(origin, value, where)
    if origin is tuple and kinds[-1:] != (...,):
        if len(value) != len(kinds):
            _refused(kinds, value, where)
        pairs = zip(kinds, value, strict=True)
        return tuple(
            _made(kind, item, f"{where}[{i}]", lenient) for i, (kind, item) in enumerate(pairs)
        )
    items = [_made(kinds[0], item, f"{where}[{i}]", lenient) for i, item in enumerate(value)]
    return tuple(items) if origin in (tuple, Sequence) else items


def _key(kind: Any, key: Any, where: str) -> Any:
    try:
        return key if kind is str else kind(key)
    except (TypeError, ValueError):
        return _refused(kind, key, where)


def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, bool):
        return _refused(kind, value, where)
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    return _refused(kind, value, where)


def _refused(kind: Any, value: Any, where: str) -> Any:
    raise NotOfThisType(f"{where} should be {kind}, and is {type(value).__name__}")
