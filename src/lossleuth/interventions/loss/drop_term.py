"""One additive term of the loss left out.

Terms are counted from 0 as they are added up, which the probe `terms` says of each: in
`a + 0.1 * b`, `a` is 0 and `b` is 1. A cross-entropy with smoothing is a sum of two, for torch. A
loss that is no sum, or has no term of that index, is followed exactly as before. Terms that the
program differentiates one by one are not put together, and gradients that are returned, not added
to the parameters, are left alone.
"""

from __future__ import annotations

from lossleuth.interventions.gradient.follow_true_gradient import put_gradients
from lossleuth.interventions.intervention import Intervention
from lossleuth.probes.gradient.loss_terms import gradient_without
from lossleuth.tape.window import Backward, Window


class DropTerm(Intervention):
    """Follow the true gradient of what is left of the sum."""

    wants_tape = True

    def __init__(self, index: int) -> None:
        self._index = int(index)

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Put that gradient where the engine's own was added."""
        if window is None or run is None or run.returned:
            return
        found = gradient_without(window, run, self._index)
        if found is not None:
            put_gradients(window, run, found)
