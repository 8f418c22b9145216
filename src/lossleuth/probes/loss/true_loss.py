"""The true loss of a step: plain cross-entropy of the next token, whatever the program follows.

The logits are those of the replayed step with dropout off; the targets are the program's own where
they are the next tokens, else the next tokens of its input. No smoothing, no other terms, no
scaling: a number that can be compared between runs that print different things.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from lossleuth.findings.data import Alignment
from lossleuth.findings.loss import TrueLoss
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.roles.alignment import alignment, supervision
from lossleuth.tape.roles.loss_roles import supervised_roles
from lossleuth.tape.roles.roles import Roles, token_values
from lossleuth.tape.roles.row_places import row_places
from lossleuth.tape.roles.supervised_rows import is_counted, is_supervised, rows_of, target_values
from lossleuth.tape.window import Window

# The share of the targets that the tokens at their offset have to be, to be copied or foreseen.
MIN_THERE = 0.5
# Logits with this standard deviation or less are all the same but for rounding. Picked by hand.
MAX_CONSTANT_STD = 1e-6


@dataclass(frozen=True)
class CrossEntropy:
    """A differentiable mean, and how many targets it is of."""

    mean: Tensor
    count: int
    # A row of logits for each target, counted or not.
    rows: Tensor


def true_loss(window: Window) -> TrueLoss:
    """Measure it, or say why not."""
    try:
        found = cross_entropy(window, dropout=False, gradients=False)
    except CannotReplay as reason:
        return TrueLoss(None, 0, None, logits_std=None, untested=str(reason))
    spread = float(found.rows[torch.isfinite(found.rows)].std())
    size = _gradient_size(window) if spread <= MAX_CONSTANT_STD else None
    loss, classes = float(found.mean), found.rows.shape[1]
    return TrueLoss(loss, found.count, classes, spread, gradient=size)


def _gradient_size(window: Window) -> float | None:
    """The norm of the true loss's gradient, with every cut opened."""
    tape = window.tape
    held = {id(p) for update in window.updates for p in update.parameters}
    numbers = [i for i, t in tape.leaves.items() if id(t) in held or i in tape.parameters]
    leaves = {i: tape.value(i).detach().double().clone().requires_grad_() for i in numbers}
    try:
        mean = cross_entropy(window, leaves=leaves, dropout=False).mean
    except CannotReplay:
        return None
    if not mean.requires_grad:
        return 0.0
    found = torch.autograd.grad(mean, list(leaves.values()), allow_unused=True)
    return float(sum(float(g.square().sum()) for g in found if g is not None) ** 0.5)


def cross_entropy(
    window: Window,
    *,
    leaves: Mapping[int, Tensor] | None = None,
    dropout: bool = True,
    gradients: bool = True,
    pick: int | None = None,
) -> CrossEntropy:
    """The mean cross-entropy of the step's supervised targets, with other leaves if given."""
    roles = supervised_roles(window, pick)
    if roles.is_binary:
        raise CannotReplay("each class has a loss of its own: there is no cross-entropy")
    rows = logit_rows(window, roles, leaves, dropout=dropout, gradients=gradients)
    targets = true_targets(window, roles)
    return cross_entropy_of(rows, targets, is_counted(window, roles, targets))


def true_targets(window: Window, roles: Roles) -> Tensor:
    """The targets a language model should have: the program's own, or else the next tokens."""
    if not roles.has_targets:
        return _next_tokens(window, roles)
    found = alignment(window, roles)
    if found.untested is None and found.offset not in (1, None) and _is_there(window, roles, found):
        return _next_tokens(window, roles)
    return target_values(window, roles)


def _is_there(window: Window, roles: Roles, found: Alignment) -> bool:
    """Whether the tokens at that offset, as far as they are looked up, are the targets.

    A word that is to be guessed from those around it stands between them in the data.
    """
    known = supervision(window, roles)
    shares = known.shares(known.time_axis, [found.offset or 0])
    return all(share > MIN_THERE for share in shares.values())


def cross_entropy_of(rows: Tensor, targets: Tensor, counted: Tensor) -> CrossEntropy:
    """The mean over the targets that count."""
    targets = targets.reshape(-1)
    if len(targets) != len(rows):
        raise CannotReplay("the number of targets is not the number of rows of logits")
    count = int(counted.sum())
    if not count:
        raise CannotReplay("no target is supervised")
    mean = F.cross_entropy(rows[counted], targets[counted].long())
    return CrossEntropy(mean, count, rows)


def logit_rows(
    window: Window,
    roles: Roles,
    leaves: Mapping[int, Tensor] | None = None,
    *,
    dropout: bool = True,
    gradients: bool = True,
) -> Tensor:
    """The replayed logits, a row for each target."""
    replay = Replay(window.tape, gradients=gradients, dropout=dropout, cuts=Cuts.OPENED)
    return rows_of(replay, roles, leaves=leaves)


def targets_by_place(window: Window, roles: Roles) -> Tensor:
    """The target of each token position; -100 where it is unknown.

    The program's own targets where those are the next tokens, else the next tokens themselves.
    """
    tokens = _sequences(window, roles)
    found = torch.full(tokens.shape, -100, dtype=torch.long)
    if not roles.has_targets:
        found[:, :-1] = tokens[:, 1:]
        return found
    targets = true_targets(window, roles).reshape(-1)
    places = supervision(window, roles).places
    counted = is_supervised(targets, roles.ignored, roles.vocabulary)
    found.view(-1)[places[counted]] = targets[counted].long()
    return found


def _sequences(window: Window, roles: Roles) -> Tensor:
    tokens = token_values(window.tape, roles)
    if tokens is None:
        raise CannotReplay("the targets are not the next tokens, and the next tokens are unknown")
    return tokens


def _next_tokens(window: Window, roles: Roles) -> Tensor:
    """For each row of logits the token that follows it; the ignored one at the end of a row."""
    tokens = _sequences(window, roles)
    ignored = -100 if roles.ignored is None else roles.ignored
    following = torch.full_like(tokens, ignored)
    if roles.has_targets:
        found = supervision(window, roles)
        places = found.places
        if not found.time_axis:
            following[:-1] = tokens[1:]
            return following.reshape(-1)[places]
    else:
        places = row_places(window, roles, tokens)
    following[:, :-1] = tokens[:, 1:]
    return following.reshape(-1)[places]


PROBE = Probe(TrueLoss, lambda a: true_loss(a.window))
