"""Tensors that the library cannot read, measured one by one around an update."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from lossleuth.native.columns import GRADIENT, UPDATE
from lossleuth.native.fallback import (
    Array,
    Number,
    Spans,
    flat,
    gradient_statistics,
    pick,
    update_statistics,
)
from lossleuth.native.layout import Layout
from lossleuth.native.table import Tensors


class UnreadTensors:
    """Measures single rows of one step; `reasons` are filled with why one could not be."""

    def __init__(self, layout: Layout, step: int, reasons: dict[int, str]) -> None:
        # Parameters that the library has not copied.
        self.uncopied: Collection[int] = ()
        self._layout = layout
        self._step = step
        self._reasons = reasons
        # Flat copies, with the spans they hold.
        self._copies: dict[int, tuple[Array, Spans | None]] = {}
        self._all_spans: Spans | None = None

    def copy(self, rows: Collection[int], parameters: Sequence[Tensor]) -> None:
        """Copy parameters before the update, as far as this step reads them."""
        self.uncopied = rows

        def keep(i: int) -> None:
            values = flat(parameters[i])
            # A complex tensor has twice as many values as elements, and is kept whole.
            seen = self._spans_of(i) if len(values) == self._layout.counts[i] else None
            self._copies[i] = copy.deepcopy(pick(values, seen)), seen

        self._attempt(rows, keep)

    def measure_gradients(self, rows: Collection[int], gradients: Tensors) -> None:
        """Fill the columns of the gradient."""

        def statistics(i: int) -> list[Number]:
            gradient = gradients[i]
            assert gradient is not None
            return gradient_statistics(gradient)

        self._measure(rows, GRADIENT, statistics)

    def measure_updates(
        self,
        rows: Collection[int],
        parameters: Sequence[Tensor],
        *,
        gradients: Tensors,
        first: Tensors,
        second: Tensors,
        thresholds: Sequence[float],
    ) -> None:
        """Fill the columns of the update."""

        def statistics(i: int) -> list[Number]:
            before, seen = self._before(i)
            values = flat(parameters[i])

            def seen_of(tensor: Tensor | None, name: str) -> Array | None:
                if tensor is None:
                    return None
                others = flat(tensor)
                if len(others) != len(values):
                    found = f"the {name} has {len(others)} values"
                    raise ValueError(f"{found}, the weight {len(values)}")
                return pick(others, seen)

            # Without a first moment, the gradient itself is what an update follows.
            gradient = gradients[i] if first[i] is None else None
            return update_statistics(
                pick(values, seen),
                before,
                gradient=seen_of(gradient, "gradient"),
                first=seen_of(first[i], "first moment"),
                second=seen_of(second[i], "second moment"),
                threshold=thresholds[i],
                count=len(values),
            )

        self._measure(rows, UPDATE, statistics)

    def _before(self, i: int) -> tuple[Array, Spans | None]:
        """What a parameter was before the update, and which of its elements that are."""
        if i in self._copies:
            return self._copies[i]
        if i in self.uncopied:
            raise ValueError("the weights could not be copied before the update")
        layout, seen = self._layout, self._spans_of(i)
        elements = layout.counts[i] if seen is None else int(seen[1].sum())
        return flat(layout.table.copy_of(i, layout.dtypes[i], elements)), seen

    def _spans_of(self, i: int) -> Spans | None:
        if self._layout.is_whole(i):
            return None
        if self._all_spans is None:
            self._all_spans = self._layout.spans_at(self._step)
        return self._layout.spans_of(i, self._all_spans)

    def _measure(
        self, rows: Collection[int], columns: slice, statistics: Callable[[int], list[Number]]
    ) -> None:
        on_device: dict[int, Tensor] = {}
        results = self._layout.results

        def measure(i: int) -> None:
            numbers = statistics(i)
            device = next((n.device for n in numbers if isinstance(n, Tensor)), None)
            if device is None:
                results[i, columns] = numbers
            else:
                row = [torch.as_tensor(n, dtype=torch.float64, device=device) for n in numbers]
                on_device[i] = torch.stack(row)

        def fetch(i: int) -> None:
            results[i, columns] = on_device[i].cpu().numpy()

        # First all, then fetch, so that a device computes while the next tensor is prepared.
        self._attempt(rows, measure)
        self._attempt(on_device, fetch)

    def _attempt(self, rows: Collection[int], action: Callable[[int], None]) -> None:
        """Measure one tensor after another; where that fails, only its own row is lost."""
        with torch.no_grad(), np.errstate(all="ignore"):
            for i in rows:
                try:
                    action(i)
                except Exception as error:
                    self._reasons.setdefault(i, f"{type(error).__name__}: {error}")
