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
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.roles import recorded_value, roles_of
from lossleuth.tape.window import Backward, Window


def logit_gradients(window: Window) -> list[LogitGradient]:
    """One for each backward pass that adds to gradients."""
    return [logit_gradient(window, run) for run in window.backwards if not run.returned]


def logit_gradient(window: Window, run: Backward) -> LogitGradient:
    """Compare for one backward pass."""
    tape = window.tape
    if any(root is None for root in run.roots):
        return _untested("the loss was computed before recording began")
    roles = roles_of(tape, run)
    if roles.scores is None or roles.targets is None or roles.scores_at is None:
        return _untested("no logits and targets were found")
    try:
        replay, constant = Replay(tape), Replay(tape, gradients=False)
        scores = constant.run([roles.scores], before=roles.scores_at)[roles.scores]
        scores = scores.detach().requires_grad_()
        # Other terms may use what was made before; they are constants here.
        roots = [root for root in run.roots if root is not None]
        needed = tape.needed_for(roots, run.at, roles.scores_at)
        made = {o for operation in needed for o in operation.outputs}
        given = {i for op in needed for i in op.inputs if i not in made and i not in tape.leaves}
        before = constant.run(sorted(given - {roles.scores}), before=roles.scores_at)
        values = {i: v.detach() for i, v in before.items()} | {roles.scores: scores}
        found = replay.run(roots, before=run.at, since=roles.scores_at, leaves=values)
        total = sum((found[root].sum() for root in roots), torch.zeros((), dtype=torch.float64))
        seed = run.seeds[0]
        if not total.requires_grad:
            raise CannotReplay("the loss does not depend on the logits")
        (used,) = torch.autograd.grad(total, [scores])
        if seed is not None and seed.numel() == 1:
            used = used * float(seed)
        targets = recorded_value(tape, roles.targets, run.at)
    except CannotReplay as reason:
        return _untested(str(reason))
    rows = scores.detach().movedim(roles.class_axis, -1).reshape(-1, scores.shape[roles.class_axis])
    flat = used.movedim(roles.class_axis, -1).reshape(rows.shape)
    targets = targets.reshape(-1)
    if len(targets) != len(rows):
        return _untested("the number of targets is not the number of rows of logits")
    ignored = -100 if roles.ignored is None else roles.ignored
    counted = (targets != ignored) & (targets >= 0) & (targets < rows.shape[1])
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
