"""Statistics of every module's output, on request."""

from __future__ import annotations

import weakref
from typing import Any

from torch import Tensor, nn

from lossleuth.observe.module_names import module_names


class Activations:
    """RMS, largest absolute value and share of zeros of every module's output in a step."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._seen: dict[str, list[float]] = {}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def add(self, module: nn.Module, output: Tensor) -> None:
        """Measure one output; if a module is called twice in a step, the last call counts."""
        if module not in self._names:
            self._names.update(module_names())
        values = output.detach()
        if not values.is_floating_point() or not values.numel():
            return
        values = values.double()
        size = values.numel()
        self._seen[self._names.get(module, type(module).__name__)] = [
            float(values.square().mean().sqrt()),
            float(values.abs().max()),
            float((values == 0).sum()) / size,
        ]

    def take(self, step: int) -> dict[str, Any]:
        """What was measured in this step."""
        seen, self._seen = self._seen, {}
        return {"step": step, "columns": ["rms", "max", "zero_share"], "modules": seen}
