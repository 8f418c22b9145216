"""The gradient replaced by that of the plain cross-entropy of the model's own logits.

Whatever loss the program differentiates, the mean cross-entropy of its targets is followed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.interventions.gradient.follow_true_gradient import put_gradients
from lossleuth.interventions.intervention import Intervention, parameters_of
from lossleuth.probes.loss.true_loss import cross_entropy_of, logit_rows, true_targets
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.roles.loss_roles import loss_read, supervised_roles
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.roles.supervised_rows import is_counted
from lossleuth.tape.window import Backward, Window


class FollowCrossEntropy(Intervention):
    """Train on plain cross-entropy."""

    wants_tape = True

    def __init__(self) -> None:
        # Which loss the program reads is known from the step before.
        self._previous: Window | None = None

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Replace autograd's gradient by this one."""
        if window is not None and run is not None and not run.returned:
            put_gradients(window, run, self._gradients(window, list(run.before), run))

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """The same where gradients are made by hand, without a backward pass."""
        window = self.window
        if window is None or window.backwards:
            return
        held = {id(p): p for p in parameters_of(optimizer)}
        numbers = {i: held[id(t)] for i, t in window.tape.leaves.items() if id(t) in held}
        with neutral(float64=False, gradients=True):
            found = self._gradients(window, list(numbers))
        for number, gradient in found.items():
            parameter = numbers[number]
            parameter.grad = None if gradient is None else gradient.to(parameter.dtype)

    def _targets(self, window: Window, roles: Roles) -> Tensor | None:
        """The targets to use; None if that would change nothing."""
        return true_targets(window, roles)

    def _gradients(
        self, window: Window, numbers: list[int], run: Backward | None = None
    ) -> dict[int, Tensor | None]:
        tape = window.tape
        before, self._previous = self._previous, window
        pick = None if before is None or before is window else loss_read(before)
        roles = supervised_roles(window, pick, run)
        targets = self._targets(window, roles)
        if targets is None:
            return {}
        replay = Replay(tape, cuts=Cuts.OPENED)
        with torch.inference_mode(mode=False):
            leaves = {
                i: replay.widened(tape.value(i).detach()).clone().requires_grad_() for i in numbers
            }
        counted = is_counted(window, roles, targets)
        loss = cross_entropy_of(logit_rows(window, roles, leaves), targets, counted).mean
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        return dict(zip(leaves, found, strict=True))
