"""Initial weights rescaled: matrices that start too large get the size that keeps signals level.

It happens at the first update, which is undone; everything before has used the weights as they
were, everything after starts from the rescaled ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention, copies, parameters_of
from lossleuth.tape.window import Backward, Window


class RescaleWeights(Intervention):
    """Bring every matrix to a root mean square of at most 1/sqrt(its shorter side)."""

    def __init__(self, table_rms: float = 0.02) -> None:
        self._table_rms = table_rms
        self._before: list[Tensor] | None = None
        self._done: set[int] = set()
        # Parameters that were updated by hand and start again; none once that is over.
        self._restarted: list[Tensor] | None = None

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Remember the initial weights."""
        if id(optimizer) not in self._done:
            self._before = copies(parameters_of(optimizer))

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Start again from smaller weights and a fresh optimizer state."""
        if id(optimizer) in self._done or self._before is None:
            return
        self._done.add(id(optimizer))
        self._start_again(parameters_of(optimizer), self._before)
        optimizer.state.clear()
        self._before = None

    def updated_by_hand(self, parameters: Sequence[Tensor], before: Sequence[Tensor]) -> None:
        """The same for a program without an optimizer.

        An update may be noticed only when the next loss is there, which has used the weights as
        they were: its gradient counts for nothing.
        """
        if self._restarted is None:
            self._start_again(parameters, before)
            self._restarted = list(parameters)

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Clear the first gradients after a start again by hand."""
        for parameter in self._restarted or ():
            if parameter.grad is not None:
                parameter.grad.zero_()
        if self._restarted:
            self._restarted = []

    def _start_again(self, parameters: Sequence[Tensor], before: Sequence[Tensor]) -> None:
        with torch.no_grad():
            for parameter, start in zip(parameters, before, strict=True):
                parameter.data.copy_(start * self._factor(start))

    def _factor(self, weight: Tensor) -> float:
        if weight.dim() < 2:
            size = float(weight.double().square().mean().sqrt())
            return 1 / size if size > 2 else 1.0
        wanted = min(weight.shape[-1] ** -0.5, 1.0)
        if weight.shape[0] > 4 * weight.shape[-1]:
            # A table with many rows, be it of tokens or of classes.
            wanted = self._table_rms
        size = float(weight.double().square().mean().sqrt())
        return min(1.0, wanted / size) if size else 1.0
