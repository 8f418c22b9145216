"""How close a run came to the limits of 16-bit formats.

A record holds statistics of each parameter: the largest gradient, the RMS of gradients, weights and
Adam's second moment, and the largest activation if those were watched. They show how much headroom
is left before overflow, and whether the parameter with the smallest RMS would underflow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lossleuth.number_formats import FORMATS

NARROW = ("float16", "bfloat16")
# The tensors that a column of the record describes, and its statistic: the largest value, an RMS,
# or the RMS of square roots, since Adam keeps squares.
COLUMNS = {
    "grad_max": ("gradients", "largest"),
    "grad_rms": ("gradients", "rms"),
    "weight_rms": ("weights", "rms"),
    "moment2_rms": ("Adam's second moment", "squared"),
}


@dataclass(frozen=True)
class RecordedRange:
    """The range of one kind of tensors; NaN where it was not recorded."""

    name: str
    largest: float = math.nan
    # RMS of the parameter with the largest RMS, and of the one with the smallest.
    loudest: float = math.nan
    quietest: float = math.nan

    def room(self, format: str) -> float:
        """Doublings until the largest value overflows; if it is unknown, the largest RMS."""
        known = self.loudest if math.isnan(self.largest) else self.largest
        return FORMATS[format].room(known)

    def lost(self, format: str) -> str:
        """What the format would do to the parameter with the smallest RMS.

        >>> RecordedRange("gradients", quietest=1e-9).lost("float16")
        'becomes 0'
        >>> RecordedRange("gradients", quietest=1e-9).lost("bfloat16")
        'kept'
        """
        kind = FORMATS[format]
        if math.isnan(self.quietest):
            return "not recorded"
        if self.quietest < kind.smallest / 2:
            return "becomes 0"
        return "loses digits" if self.quietest < kind.smallest_normal else "kept"


def ranges_of(
    columns: Mapping[str, NDArray[np.float64]], activations: Iterable[float]
) -> list[RecordedRange]:
    """Ranges from columns of the record, one row per parameter, and from the largest activations.

    >>> columns = {"grad_max": np.array([[0.5], [2.0]]), "grad_rms": np.array([[1e-9], [0.1]])}
    >>> found = ranges_of(columns, [])[0]
    >>> found.largest, found.loudest, found.quietest
    (2.0, 0.1, 1e-09)
    """
    parts: dict[str, dict[str, float]] = {}
    for column, (name, kind) in COLUMNS.items():
        values = columns.get(column)
        if values is None:
            continue
        there = values[np.isfinite(values) & (values > 0)]
        part = parts.setdefault(name, {})
        if not len(there):
            continue
        if kind == "largest":
            part["largest"] = float(there.max())
            continue
        power = 2 if kind == "squared" else 1
        part["loudest"], part["quietest"] = (float(f(there)) ** power for f in (np.max, np.min))
    seen = [value for value in activations if math.isfinite(value)]
    if seen:
        parts["activations"] = {"largest": max(seen)}
    return [RecordedRange(name, **found) for name, found in parts.items() if found]


def largest_activations(events: Iterable[Mapping[str, object]]) -> list[float]:
    """The largest value in each module's output, from the record's events."""
    found = []
    for event in events:
        columns, modules = event.get("columns"), event.get("modules")
        if isinstance(columns, list) and "max" in columns and isinstance(modules, dict):
            where = columns.index("max")
            found += [float(row[where]) for row in modules.values()]
    return found
