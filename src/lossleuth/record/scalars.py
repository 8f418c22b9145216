"""Scalars as series: many steps of JSON turned into one array for each name.

One pass over the log yields the series of all names at once. They are kept within a budget of
memory; what does not fit is read again when it is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lossleuth.record import values
from lossleuth.record.log import Log
from lossleuth.record.names import refuse_unknown
from lossleuth.types.errors import BadInput

_BYTES_OF_A_VALUE = 12
BUDGET = 96 << 20


class _Column:
    """The numbers of one name, and the steps that have one."""

    __slots__ = ("at", "values")

    def __init__(self) -> None:
        self.at = array("I")
        self.values = array("d")


class Scalars:
    """The scalars of a log by name."""

    def __init__(self, log: Log, budget: int = BUDGET) -> None:
        self._log = log
        self._most = budget // _BYTES_OF_A_VALUE
        self._names: dict[str, None] = {}
        self._kept: dict[str, _Column] = {}
        self._count = 0
        self._read = 0

    def names(self) -> list[str]:
        """Every name, in the order of appearance."""
        self._read_on()
        return list(self._names)

    def series(self, name: str) -> NDArray[np.float64]:
        """The numbers of a name, one for each step; NaN where there is none."""
        self._read_on()
        refuse_unknown("scalar", name, self._names)
        if name not in self._kept:
            self._start_with(name)
            self._read_on()
        column = self._kept[name]
        found = np.full(len(self._log.steps), np.nan)
        found[np.array(column.at, dtype=np.intp)] = column.values
        return found

    def _start_with(self, name: str) -> None:
        """Read again, with room for this name first and then for those after it."""
        names = list(self._names)
        at = names.index(name)
        self._keep(names[at:] + names[:at])

    def _keep(self, names: Iterable[str]) -> None:
        self._kept = {name: _Column() for name in names}
        self._count = 0
        self._read = 0

    def _read_on(self) -> None:
        for index in range(self._read, len(self._log.steps)):
            for name, value in decoded(self._log, index).items():
                if name not in self._names:
                    self._names[name] = None
                    self._kept[name] = _Column()
                column = self._kept.get(name)
                number = values.number(value)
                if column is None or number is None:
                    continue
                column.at.append(index)
                column.values.append(number)
                self._count += 1
                while self._count > self._most and len(self._kept) > 1:
                    self._count -= len(self._kept.popitem()[1].at)
            self._read = index + 1


def decoded(log: Log, index: int) -> dict[str, object]:
    """The scalars of a step, the non-finite numbers still strings."""
    try:
        found = values.decode_raw(log.scalars(index))
    except ValueError as error:
        found = error
    if not isinstance(found, dict):
        raise BadInput(
            "the scalars of a step as a JSON object",
            f"{log.path}: not so in step {log.steps[index]}",
            "the log was not written by lossleuth",
        )
    return found
