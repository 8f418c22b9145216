"""Which positions a number counts, with which weight, and against which token.

The derivative of a sum of cross-entropies for the scores of a position is its weight times
(probabilities minus 1 at the target). So weights and targets can be read off the derivative,
however the program has written its loss; what is left over tells of smoothing or of other terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Share of the derivative that a plain cross-entropy may leave unexplained. Picked by hand.
MAX_UNEXPLAINED_SHARE = 1e-3


@dataclass(frozen=True)
class Counted:
    """For the positions that count: where they are, their weights, their targets."""

    places: Tensor
    weights: Tensor
    targets: Tensor
    # Share of the derivative that these do not explain.
    unexplained: float

    @property
    def is_plain(self) -> bool:
        """Whether it is cross-entropy and nothing else."""
        return len(self.places) > 0 and self.unexplained < MAX_UNEXPLAINED_SHARE


def counted_rows(rows_NV: Tensor, derivative_NV: Tensor) -> Counted:
    """The positions that a number's derivative for the scores speaks of.

    >>> scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    >>> loss = torch.nn.functional.cross_entropy(scores[:2], torch.tensor([4, 1]))
    >>> found = counted_rows(scores.detach(), torch.autograd.grad(loss, scores)[0])
    >>> found.places.tolist(), found.targets.tolist(), found.is_plain
    ([0, 1], [4, 1], True)
    """
    # Of a number that grows with the probability of its targets, the other way round.
    return min(
        (_counted(rows_NV, derivative_NV), _counted(rows_NV, derivative_NV, -1.0)),
        key=lambda found: found.unexplained,
    )


def _counted(rows_NV: Tensor, derivative_NV: Tensor, sign: float = 1.0) -> Counted:
    size_N = derivative_NV.abs().amax(-1)
    places = torch.nonzero(size_N > 1e-13 * size_N.max()).reshape(-1)
    given = sign * derivative_NV[places]
    chances = rows_NV[places].double().log_softmax(-1)
    targets = given.argmin(-1)
    at_target = chances.gather(-1, targets[:, None])[:, 0]
    weights = -given.gather(-1, targets[:, None])[:, 0] / -torch.expm1(at_target)
    expected = weights[:, None] * chances.exp()
    expected[torch.arange(len(places)), targets] -= weights
    whole = float(given.norm())
    left = float((given - expected).norm()) / whole if whole else 1.0
    return Counted(places, sign * weights, targets, left if left == left else 1.0)
