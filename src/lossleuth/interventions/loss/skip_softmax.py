"""The softmax before the loss left out: the loss gets the scores."""

from __future__ import annotations

import torch

from lossleuth.interventions.gradient.follow_true_gradient import put_gradients
from lossleuth.interventions.intervention import Intervention
from lossleuth.probes.loss.true_loss import cross_entropy_of
from lossleuth.probes.model.softmaxes import inner_softmax
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.roles.loss_roles import supervised_roles
from lossleuth.tape.roles.supervised_rows import is_counted, target_values
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Backward, Window


class SkipSoftmax(Intervention):
    """Follow the cross-entropy of what the first softmax was taken of."""

    wants_tape = True

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Replace autograd's gradient by this one."""
        if window is None or run is None or run.returned:
            return
        tape, roles = window.tape, supervised_roles(window)
        assert roles.scores is not None
        inner = _inner_softmax(tape, roles.scores)
        replay = Replay(tape, cuts=Cuts.OPENED)
        with torch.inference_mode(mode=False):
            leaves = {
                i: replay.widened(tape.value(i).detach()).clone().requires_grad_()
                for i in run.before
            }
        made = replay.run([inner.inputs[0]], before=inner.number, leaves=leaves)
        scores = made[inner.inputs[0]]
        rows = scores.reshape(-1, scores.shape[-1])
        targets = target_values(window, roles)
        loss = cross_entropy_of(rows, targets, is_counted(window, roles, targets)).mean
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        put_gradients(window, run, dict(zip(leaves, found, strict=True)))


def _inner_softmax(tape: Tape, number: int) -> Operation:
    """The softmax that made these numbers; CannotReplay if there is none."""
    softmax = inner_softmax(tape, number)
    if softmax is None:
        raise CannotReplay("no softmax was found before the loss")
    return softmax
