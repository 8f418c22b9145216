"""How good a teacher is: its loss on the true next tokens, beside the student's.

Knowledge may be there and yet be of no use: at another place, or under other numbers of tokens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lossleuth.findings.distillation import TeacherQuality

# Places before and after a row at which its target is looked for.
OFFSETS = range(-2, 3)
# With more classes we make no table of classes against targets: it grows with their square. Picked
# by hand.
MAX_CLASSES = 4096
# Targets needed to choose other names for the classes, and to test them. Picked by hand.
MIN_TARGETS = 64
MIN_TARGETS_TESTED = 32


def known_by(teacher: Tensor, student: Tensor, targets: Tensor) -> TeacherQuality | None:
    """Measure scores of teacher and student, a row for each target.

    `targets` has a row for each of `OFFSETS`: the targets of the places so far away.
    """
    log_p_teacher = teacher.flatten(0, -2).log_softmax(-1)
    log_p_student = student.flatten(0, -2).log_softmax(-1)
    own = targets[OFFSETS.index(0)]
    known = own >= 0
    count = int(known.sum())
    if count < 2:
        return None
    theirs, ours = _losses(log_p_teacher, own)[known], _losses(log_p_student, own)[known]
    offsets = {}
    # Where every offset has a target, so that all are of the same rows.
    everywhere = (targets >= 0).all(0)
    if bool(everywhere.any()):
        for offset, there in zip(OFFSETS, targets, strict=True):
            offsets[str(offset)] = float(_losses(log_p_teacher, there)[everywhere].mean())
    renamed, renamed_error = _renamed(log_p_teacher[known], own[known])
    behind = theirs - ours
    return TeacherQuality(
        loss=float(theirs.mean()),
        error=_error(theirs),
        tokens=count,
        behind=float(behind.mean()),
        behind_error=_error(behind),
        offsets=offsets,
        renamed=renamed,
        renamed_error=renamed_error,
    )


def log_probabilities(scores: Tensor) -> Tensor:
    """Log-probabilities, from logits or from probabilities.

    >>> log_probabilities(torch.tensor([[0.5, 0.5]])).exp().tolist()
    [[0.5, 0.5]]
    """
    if is_distribution(scores):
        return scores.clamp(min=torch.finfo(scores.dtype).tiny).log()
    return scores.log_softmax(-1)


def is_distribution(scores: Tensor) -> bool:
    """Whether these are probabilities already.

    >>> is_distribution(torch.tensor([[0.25, 0.75]])), is_distribution(torch.tensor([[1.0, 2.0]]))
    (True, False)
    """
    return bool((scores >= 0).all()) and bool(((scores.sum(-1) - 1).abs() < 1e-3).all())


def _losses(log_shares: Tensor, targets: Tensor) -> Tensor:
    return -log_shares.gather(1, targets.clamp(min=0)[:, None])[:, 0]


def _error(values: Tensor) -> float:
    return float(values.std()) / math.sqrt(len(values))


def _renamed(log_p_teacher: Tensor, targets: Tensor) -> tuple[float | None, float | None]:
    """The loss with classes renamed; the best names are chosen on every other row."""
    classes = log_p_teacher.shape[1]
    if classes > MAX_CLASSES or len(targets) < MIN_TARGETS:
        return None, None
    chosen, tested = slice(0, None, 2), slice(1, None, 2)
    # How often a target comes where a class is expected, against how often it comes at all.
    hot = torch.zeros_like(log_p_teacher[chosen])
    hot[torch.arange(len(hot)), targets[chosen]] = 1.0
    shares = log_p_teacher[chosen].exp()
    together = shares.T @ hot
    by_chance = shares.sum(0)[:, None] * hot.mean(0)[None]
    excess = together - by_chance
    names = torch.full((classes,), -1)
    taken = torch.zeros(classes, dtype=torch.bool)
    order = excess.flatten().argsort(descending=True)[: 8 * classes].tolist()
    for flat in order:
        own, target = divmod(flat, classes)
        if names[target] < 0 and not taken[own]:
            names[target], taken[own] = own, True
    own_names = names[targets[tested]]
    known = own_names >= 0
    if int(known.sum()) < MIN_TARGETS_TESTED:
        return None, None
    losses = _losses(log_p_teacher[tested][known], own_names[known])
    return float(losses.mean()), _error(losses)
