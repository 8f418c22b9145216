"""The gradient replaced by that of the plain cross-entropy of the model's own logits.

Whatever loss the program differentiates, the mean cross-entropy of its targets is followed.
"""

from __future__ import annotations

import torch

from lossleuth.interventions.follow_true_gradient import put_gradients
from lossleuth.interventions.intervention import Intervention
from lossleuth.probes.cross_entropy import cross_entropy, loss_read
from lossleuth.tape.replay import Cuts, Replay
from lossleuth.tape.window import Backward, Window


class FollowCrossEntropy(Intervention):
    """Train on what a language model is meant to be trained on."""

    wants_tape = True

    def __init__(self) -> None:
        # Which loss the program reads is known from the step before.
        self._previous: Window | None = None

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Put that gradient where the engine's own was added."""
        if window is None or run is None or run.returned:
            return
        tape = window.tape
        replay = Replay(tape, cuts=Cuts.OPENED)
        with torch.inference_mode(mode=False):
            leaves = {
                i: replay.widened(tape.value(i).detach()).clone().requires_grad_()
                for i in run.before
            }
        before, self._previous = self._previous, window
        pick = None if before is None or before is window else loss_read(before)
        loss = cross_entropy(window, leaves=leaves, pick=pick).mean
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        put_gradients(window, run, dict(zip(leaves, found, strict=True)))
