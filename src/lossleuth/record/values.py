"""Any value of the user's program as strict JSON.

JSON has no NaN and no infinity, so a non-finite number is written as in `strict_json`, as the
string "NaN", "Infinity" or "-Infinity", and those three strings are read back as numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from lossleuth.record.strict_json import NON_FINITE

# Plain ASCII: a lone surrogate, as in a name that is not UTF-8, then survives too.
_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
# Python refuses to write or read a whole number of more digits than 4 300.
_MAX_INTEGER_BITS = 14_000
# A reader may stand deeper in its stack than the writer did.
_MAX_DEPTH = 100


def encode_json(value: Any) -> tuple[bytes, list[str]]:
    """Strict JSON of a value, and which values in it had to be left out.

    What JSON cannot hold is replaced by a note of its type.

    >>> encode_json({"loss": math.nan, "tags": {1, 2}})
    (b'{"loss":"NaN","tags":{"unrecorded":"set"}}', ['tags is of type set'])
    """
    left_out: list[str] = []
    encoded = _encoded(value)
    if encoded is None and type(value) is dict:
        # Most often it is a loss that became NaN, step after step.
        encoded = _encoded({k: _spelled(v) if type(v) is float else v for k, v in value.items()})
    # Fewer brackets cannot be nested deeper.
    if encoded is None or encoded.count(b"{") + encoded.count(b"[") > _MAX_DEPTH:
        encoded = _ENCODER.encode(_plain(value, "", 1, left_out)).encode()
    return encoded, left_out


def _encoded(value: Any) -> bytes | None:
    try:
        return _ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return None


def _spelled(value: float) -> float | str:
    """The number, or its name if JSON has no such number."""
    if value - value == 0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _plain(value: Any, where: str, depth: int, left_out: list[str]) -> Any:
    """The value made of what JSON has."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        return _spelled(value)
    if isinstance(value, int) and value.bit_length() < _MAX_INTEGER_BITS:
        return value
    if depth > _MAX_DEPTH:
        raise ValueError(f"{where[:80]} is nested deeper than {_MAX_DEPTH}")
    if isinstance(value, Mapping):
        return {str(k): _plain(item, str(k), depth + 1, left_out) for k, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, where, depth + 1, left_out) for item in value]
    if isinstance(value, np.ndarray | np.generic) and _is_exact(value.dtype):
        return _plain(value.tolist(), where, depth, left_out)
    left_out.append(f"{where[:80]} is of type {type(value).__name__}")
    return {"unrecorded": type(value).__name__}


def _is_exact(kind: np.dtype[Any]) -> bool:
    """Whether plain Python numbers hold it; an extended-precision number would be rounded."""
    return kind.kind in "biuU" or (kind.kind == "f" and kind.itemsize <= 8)


def decode_json(data: bytes) -> Any:
    """The value that `encode_json` wrote; ValueError if this is not strict JSON.

    >>> decode_json(b'{"loss":"-Infinity","seed":9007199254740993}')
    {'loss': -inf, 'seed': 9007199254740993}
    """
    return restore(decode_raw(data))


def decode_raw(data: bytes) -> Any:
    """Like `decode_json`, with the non-finite numbers still strings."""
    try:
        return json.loads(data, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def restore(value: Any) -> Any:
    """The value with the names of non-finite numbers turned into these numbers."""
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, list):
        return [restore(item) for item in value]
    if isinstance(value, dict):
        return {key: restore(item) for key, item in value.items()}
    return value


def _refuse(token: str) -> Any:
    raise ValueError(f"{token} is not JSON")


def number(value: Any) -> float | None:
    """The number behind a raw JSON value; None if it is none.

    A whole number over 2⁵³ is rounded to the nearest float64, and one over 1.8e308 is infinite.

    >>> number(True), number("NaN"), number([1]), number(-(10**400))
    (1.0, nan, None, -inf)
    """
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return NON_FINITE.get(value) if isinstance(value, str) else None
