"""Is the gradient of the logits that of cross-entropy?

The gradient of the differentiated loss with respect to the logits is compared with that of the
mean cross-entropy of the same targets: softmax minus one-hot over the number of targets. Their
cosine is 1 and their ratio is the factor that the loss was multiplied by.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from lossleuth.findings.gradient import LogitGradient
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts
from lossleuth.tape.roles.roles import roles_in
from lossleuth.tape.roles.supervised_rows import is_counted, rows_and_gradients, target_values
from lossleuth.tape.window import Backward, Window


def logit_gradients(window: Window) -> list[LogitGradient]:
    """One for each backward pass that adds to gradients."""
    return [logit_gradient(window, run) for run in window.backwards if not run.returned]


def logit_gradient(window: Window, run: Backward) -> LogitGradient:
    """Compare for one backward pass."""
    if any(root is None for root in run.roots):
        return _untested("the loss was computed before recording began")
    roles = roles_in(window, run)
    if roles.scores is None or not roles.has_targets or roles.is_binary:
        return _untested("no logits and targets were found")
    try:
        rows, flat = rows_and_gradients(window, roles, run, Cuts.KEPT)
        targets = target_values(window, roles)
    except CannotReplay as reason:
        return _untested(str(reason))
    if len(targets) != len(rows):
        return _untested("the number of targets is not the number of rows of logits")
    counted = is_counted(window, roles, targets)
    count = int(counted.sum())
    if not count:
        return _untested("no target is supervised")
    rows = rows.requires_grad_()
    loss = F.cross_entropy(rows[counted], targets[counted].long())
    (own,) = torch.autograd.grad(loss, [rows])
    dot, size, other = float((flat * own).sum()), float(own.norm()), float(flat.norm())
    if not size or not other:
        return _untested("a gradient of the logits is zero", count)
    return LogitGradient(dot / (size * other), dot / size**2, count)


def _untested(reason: str, count: int = 0) -> LogitGradient:
    return LogitGradient(None, None, count, untested=reason)


PROBE = Probe(LogitGradient, lambda a: logit_gradients(a.window))
