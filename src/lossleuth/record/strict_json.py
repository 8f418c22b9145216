"""JSON that every strict parser accepts, also for numbers that JSON does not have.

Python writes NaN as a bare token that browsers refuse, and other writers put null, which hides
it. Here a non-finite number becomes the string "NaN", "Infinity" or "-Infinity".
"""

from __future__ import annotations

import json
import math
from typing import Any

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON text of plain Python values.

    >>> dumps({"loss": float("nan"), "norms": [1.5, float("-inf")]})
    '{"loss": "NaN", "norms": [1.5, "-Infinity"]}'
    """
    return json.dumps(_encode(value), allow_nan=False, indent=indent, ensure_ascii=False)


def number(value: Any) -> float:
    """The number behind a JSON value written by `dumps`.

    >>> number("-Infinity"), number(2)
    (-inf, 2.0)
    """
    if isinstance(value, str):
        return NON_FINITE[value]
    return float(value)


def _encode(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    return value
