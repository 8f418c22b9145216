"""The rows of a record's matrices: one for each parameter that was ever updated."""

from __future__ import annotations

import threading
import weakref

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.observe.module_names import parameter_names
from lossleuth.observe.provenance.value_origins import WeightSample


class KnownParameters:
    """Every parameter that was updated so far, in the order of first sight."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.samples: dict[str, WeightSample] = {}
        # How often parameters have joined.
        self.version = 0
        self._rows: dict[int, tuple[int, weakref.ref[Tensor]]] = {}
        self._growing = threading.RLock()

    def name_of(self, parameter: Tensor) -> str | None:
        """The name of a parameter that was updated."""
        return self.names[self._rows[id(parameter)][0]] if self._is_known(parameter) else None

    def declared(self) -> tuple[int, list[str], list[int]]:
        """The version, and names and sizes of all parameters in it."""
        with self._growing:
            return self.version, list(self.names), list(self.sizes)

    def rows_of(self, parameters: list[Tensor]) -> NDArray[np.intp]:
        """The row of each parameter; new ones are named."""
        # A program may train in several threads.
        with self._growing:
            new = [p for p in parameters if not self._is_known(p)]
            if new:
                for name, parameter in zip(parameter_names(new), new, strict=True):
                    self._rows[id(parameter)] = (len(self.names), weakref.ref(parameter))
                    self.names.append(_unused(name, self.names))
                    self.samples[self.names[-1]] = WeightSample.of(parameter)
                    self.sizes.append(parameter.numel())
                self.version += 1
            return np.array([self._rows[id(p)][0] for p in parameters], np.intp)

    def _is_known(self, parameter: Tensor) -> bool:
        known = self._rows.get(id(parameter))
        return known is not None and known[1]() is parameter


def _unused(name: str, names: list[str]) -> str:
    if name not in names:
        return name
    number = 2
    while f"{name} #{number}" in names:
        number += 1
    return f"{name} #{number}"
