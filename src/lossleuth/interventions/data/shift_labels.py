"""Shift the targets by some positions.

A position's target becomes that of the position `offset` later in the same row; where there is
none, nothing is aimed at. The gradient of the plain cross-entropy of those targets is followed, so
a factor, smoothing and other terms of the program's loss fall away, as in `follow_cross_entropy`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.interventions.loss.follow_cross_entropy import FollowCrossEntropy
from lossleuth.tape.roles.alignment import supervision
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.window import Backward, Window


class ShiftLabels(FollowCrossEntropy):
    """Give each position the target of another; an offset of 0 changes nothing."""

    wants_tape = True

    def __init__(self, offset: int) -> None:
        super().__init__()
        self._offset = int(offset)

    def _gradients(
        self, window: Window, numbers: list[int], run: Backward | None = None
    ) -> dict[int, Tensor | None]:
        # Where nothing is asked for, nothing has to be found.
        return super()._gradients(window, numbers, run) if self._offset else {}

    def _targets(self, window: Window, roles: Roles) -> Tensor | None:
        found = supervision(window, roles)
        tokens, places, targets = found.tokens, found.places, found.targets
        ignored = -100 if roles.ignored is None else roles.ignored
        at_places = targets.new_full((tokens.numel(),), ignored)
        at_places[places] = targets
        grid = at_places.reshape(tokens.shape)
        moved = _later(grid, self._offset, found.time_axis, ignored)
        return moved.reshape(-1)[places]


def _later(values: Tensor, offset: int, axis: int, otherwise: int) -> Tensor:
    """What stands `offset` later along an axis, or `otherwise` beyond its ends.

    >>> _later(torch.tensor([[1, 2, 3]]), 1, 1, -100).tolist()
    [[2, 3, -100]]
    >>> _later(torch.tensor([[1, 2, 3]]), -2, 1, -100).tolist()
    [[-100, -100, 1]]
    """
    moved = torch.full_like(values, otherwise)
    kept = values.shape[axis] - abs(offset)
    if kept > 0:
        to, source = max(-offset, 0), max(offset, 0)
        moved.narrow(axis, to, kept).copy_(values.narrow(axis, source, kept))
    return moved
