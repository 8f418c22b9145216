"""The gradient replaced by the true one of the replayed step, in float64."""

from __future__ import annotations

import torch

from lossleuth.interventions.intervention import Intervention
from lossleuth.probes.gradient.gradient_truth import replayed_gradients
from lossleuth.tape.replay.hidden_copies import link_copies
from lossleuth.tape.replay.replay import Cuts
from lossleuth.tape.window import Backward, Window, dense


class FollowTrueGradient(Intervention):
    """Differentiate what the program differentiated, through what its forward pass really did.

    With `opened`, also through the places where the program lets no gradient through.
    """

    wants_tape = True

    def __init__(self, opened: bool = False) -> None:
        self._cuts = Cuts.OPENED if opened else Cuts.KEPT

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Replace autograd's gradient by the true one."""
        if window is None or run is None or run.returned:
            return
        if self._cuts is Cuts.OPENED:
            link_copies(window.tape)
        true = replayed_gradients(window.tape, run, float64=True, cuts=self._cuts)
        put_gradients(window, run, true)


def put_gradients(window: Window, run: Backward, gradients: dict[int, torch.Tensor | None]) -> None:
    """Replace what a backward pass added by these gradients."""
    with torch.no_grad():
        for number, gradient in gradients.items():
            parameter = window.tape.leaves.get(number)
            if parameter is None or not parameter.requires_grad:
                continue
            before = run.before.get(number)
            if gradient is None:
                parameter.grad = None if before is None else before.clone()
                continue
            whole = gradient if before is None else gradient + dense(before)
            parameter.grad = whole.to(parameter.dtype).reshape(parameter.shape).contiguous()
