"""Is a gradient left over from the previous step?"""

from __future__ import annotations

from torch import Tensor

from lossleuth.findings.gradient import StaleGradient
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.distance import norm
from lossleuth.tape.window import Gradients, Window


def stale_gradient(window: Window) -> StaleGradient | None:
    """Size of the gradient that was there before the step's first backward pass, over its own.

    0 where gradients were cleared. Later passes of the step add to those before on purpose.
    """
    runs = [run for run in window.backwards if not run.returned]
    if not runs:
        return None
    held = {id(p) for update in window.updates for p in update.parameters}
    leaves = window.tape.leaves

    def used(gradients: Gradients) -> list[Tensor | None]:
        # What no optimizer holds is nobody's to clear.
        return [g for i, g in gradients.items() if not held or id(leaves[i]) in held]

    size = norm(used(runs[0].added()))
    return StaleGradient(norm(used(runs[0].before)) / size) if size else None


PROBE = Probe(StaleGradient, lambda a: stale_gradient(a.window))
