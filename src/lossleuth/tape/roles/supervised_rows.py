"""Which rows of a loss count, by their weight in it, and what they are compared with.

The weight of a row is the derivative of the loss by that row's own cross-entropy. A mask by
multiplication, by an index, by an ignored label or by division all look the same to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.roles.loss_gradient import gradient_at, gradients_at
from lossleuth.tape.roles.roles import Roles, recorded_value
from lossleuth.tape.window import Backward, Window

# Weights below this share of the largest are zero but for rounding.
MIN_WEIGHT = 1e-9
# A row whose probabilities are this close to its target has no gradient to weigh it by, and this
# close not even one that says whether it counts: float64 cannot tell it from its target.
MIN_DISTANCE, SATURATED = 1e-10, 1e-14
# Numbers of logits that are made at once where the program makes them piece by piece, too.
MAX_NUMBERS = 2**22


def target_values(window: Window, roles: Roles) -> Tensor:
    """The targets as the loss saw them, one for each row; the negative ones do not count."""
    return torch.cat([_targets(window, part) for part in roles.parts])


def rows_of(replay: Replay, roles: Roles, **given: Any) -> Tensor:
    """The logits of all parts of a loss, one row for each target."""
    numbers = [part.scores for part in roles.parts if part.scores is not None]
    last = max(part.scores_at or 0 for part in roles.parts)
    found = replay.run(numbers, before=last, **given)
    scores = [found[number].movedim(roles.class_axis, -1) for number in numbers]
    return torch.cat([one.reshape(-1, one.shape[-1]) for one in scores])


def is_counted(window: Window, roles: Roles, targets: Tensor) -> Tensor:
    """Which rows are supervised: by these labels, and by their weight where that can be told."""
    labelled = is_supervised(targets, roles.ignored, roles.vocabulary)
    weights = row_weights(window, roles)
    return labelled if weights is None else labelled & (weights != 0)


def is_supervised(targets: Tensor, ignored: int | None, classes: int | None) -> Tensor:
    """Which targets count by themselves.

    >>> is_supervised(torch.tensor([2, -100, 0, 7]), None, 5).tolist()
    [True, False, True, False]
    """
    counted = (targets != (-100 if ignored is None else ignored)) & (targets >= 0)
    return counted if classes is None else counted & (targets < classes)


def row_weights(window: Window, roles: Roles) -> Tensor | None:
    """The weight of each row; None where that cannot be told."""
    key = ("row_weights", roles.scores, roles.features)
    return window.once(key, lambda: _row_weights(window, roles))


def rows_and_gradients(
    window: Window, roles: Roles, run: Backward, cuts: Cuts
) -> tuple[Tensor, Tensor]:
    """The logits of each row, and the gradient of what a backward pass differentiates there."""
    parts = [(p.scores, p.scores_at) for p in roles.parts]
    known = [(i, at) for i, at in parts if i is not None and at is not None]
    if len(known) == 1:
        ((number, at),) = known
        found = [gradient_at(window, run, number, at, cuts)]
    else:
        found = gradients_at(window, run, [number for number, _ in known], cuts)
    axis = roles.class_axis
    rows, slopes = (
        torch.cat([t.movedim(axis, -1).reshape(-1, t.shape[axis]) for t in every])
        for every in zip(*found, strict=True)
    )
    return rows, slopes


@dataclass(frozen=True)
class _Learning:
    """What each row has still to learn, and what the loss asks of it."""

    # Probabilities less 1 at the target; where logits are never seen, as features see that.
    distance: Tensor
    slopes: Tensor
    known: Tensor
    # How far the probabilities themselves are from the target.
    gap: Tensor


def _row_weights(window: Window, roles: Roles) -> Tensor | None:
    try:
        found = _learning(window, roles)
    except CannotReplay:
        return None
    if found is None or not bool(torch.isfinite(found.slopes).all()):
        return None
    sizes = found.distance.norm(dim=-1)
    weights = (found.slopes * found.distance).sum(-1) / sizes.square().clamp(min=MIN_DISTANCE**2)
    # Of a prediction that is right to the last digit nothing can be told.
    told = found.known & (found.gap > MIN_DISTANCE) & (sizes > MIN_DISTANCE)
    largest = float(weights[told].abs().max()) if bool(told.any()) else 0.0
    if not largest and bool(told.any()) and _is_followed_otherwise(window, roles):
        return None
    weights = torch.where(told, weights, torch.full_like(weights, torch.nan))
    # The whole row, since another loss of the same row may cancel its weight. Beside what the row
    # is still to learn: padding that is predicted well has hardly a gradient, and counts.
    still = found.slopes.norm(dim=-1) <= MIN_WEIGHT * largest * sizes
    return torch.where(still & (found.gap > SATURATED), 0.0, weights)


def _learning(window: Window, roles: Roles) -> _Learning | None:
    run = _followed_by(window, roles) if roles.has_targets else None
    if run is None:
        return None
    targets, table = target_values(window, roles), None
    if roles.scores is not None and roles.scores_at is not None:
        rows, slopes = rows_and_gradients(window, roles, run, Cuts.OPENED)
    elif roles.features is not None and roles.output_weight is not None:
        number, at = roles.features.factor, roles.features.taken_at
        given, slopes = gradient_at(window, run, number, at, Cuts.OPENED)
        table = recorded_value(window.tape, roles.output_weight, at).to(given.dtype)
        slopes = slopes.reshape(-1, table.shape[1])
        rows = given.reshape(-1, table.shape[1])
    else:
        return None
    if len(targets) != len(rows):
        return None
    classes = rows.shape[1] if table is None else len(table)
    known = (targets >= 0) & (targets < classes)
    if table is None:
        distance = _from_target(rows, targets, known)
        return _Learning(distance, slopes, known, distance.norm(dim=-1))
    # A few rows at a time: such a loss is there because all logits at once are too many.
    seen, gaps = [], []
    size = max(1, MAX_NUMBERS // max(1, len(table)))
    for first in range(0, len(rows), size):
        some = slice(first, first + size)
        distance = _from_target(rows[some] @ table.t(), targets[some], known[some])
        seen.append(distance @ table)
        gaps.append(distance.norm(dim=-1))
    return _Learning(torch.cat(seen), slopes, known, torch.cat(gaps))


def _from_target(rows: Tensor, targets: Tensor, known: Tensor) -> Tensor:
    """The probabilities of each row, less 1 at its target."""
    distance = torch.softmax(rows, -1)
    distance[known, targets[known].long()] -= 1.0
    return distance


def _is_followed_otherwise(window: Window, roles: Roles) -> bool:
    """Whether another loss of the very same logits is followed, as in pure distillation."""
    run, logits = _followed_by(window, roles), roles.logits
    if logits is None and roles.features is not None:
        logits = roles.features.number
    if run is None or logits is None:
        return False
    maker = window.tape.makers().get(logits)
    try:
        _, slopes = gradient_at(window, run, logits, 0 if maker is None else maker.number + 1)
    except CannotReplay:
        return False
    return bool(slopes.any())


def _followed_by(window: Window, part: Roles) -> Backward | None:
    """The backward pass that differentiates these rows."""
    for run in window.backwards:
        if run is part.run:
            return run
    for run in window.backwards:
        roots = [root for root in run.roots if root is not None]
        if len(roots) == len(run.roots) and any(
            op.number == part.scores_at for op in window.tape.needed_for(roots, run.at)
        ):
            return run
    return None


def _targets(window: Window, part: Roles) -> Tensor:
    if part.inferred is not None:
        return part.inferred
    assert part.targets is not None
    return recorded_value(window.tape, part.targets, part.run.at).reshape(-1)
