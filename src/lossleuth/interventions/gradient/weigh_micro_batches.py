"""Micro-batches of a step weighed by their supervised targets."""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, parameters_of
from lossleuth.probes.gradient.logit_gradient import logit_gradient
from lossleuth.tape.window import Backward, Window


class WeighMicroBatches(Intervention):
    """Each micro-batch counts by its share of the step's targets; the sum of weights stays."""

    wants_tape = True

    def __init__(self) -> None:
        self._parts: list[tuple[float, int, dict[int, Tensor]]] = []

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Keep what was added, the weight that it has and the targets that it is of."""
        if window is None or run is None or run.returned:
            return
        found = logit_gradient(window, run)
        added = {id(window.tape.leaves[i]): g for i, g in run.added().items() if g is not None}
        self._parts.append((found.scale or 0.0, found.count, added))

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Put the parts together again with other weights."""
        parts, self._parts = self._parts, []
        weights, counts = sum(p[0] for p in parts), sum(p[1] for p in parts)
        if len(parts) < 2 or not weights or not counts or not all(p[0] for p in parts):
            return
        with torch.no_grad():
            for parameter in parameters_of(optimizer):
                if parameter.grad is None:
                    continue
                whole = sum(
                    (weights * count / counts / weight) * added[id(parameter)]
                    for weight, count, added in parts
                    if id(parameter) in added
                )
                plain = sum(added[id(parameter)] for _, _, added in parts if id(parameter) in added)
                if isinstance(whole, Tensor) and isinstance(plain, Tensor):
                    # Clipping came in between: keep its factor.
                    size = float(plain.norm())
                    factor = float(parameter.grad.double().norm()) / size if size else 1.0
                    parameter.grad.copy_((whole * factor).reshape(parameter.grad.shape))
