"""Do targets depend on the tokens around them? Measured by counting pairs.

Tokens and targets are sorted into a few bins, and the table of pairs is compared with those of
shuffled targets: what a model may or may not have learnt plays no part. The same is done for each
token and the next, which says whether so many pairs of this text can show a relation at all.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.findings.data import TargetRelation
from lossleuth.probes.probe import Probe
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.alignment import OFFSETS, supervision
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.window import Window

BINS = 16
SHUFFLES = 60
SEED = 4711
# Spreads neighbouring numbers over all bins.
SPREAD = 2654435761


def target_relation(window: Window, roles: Roles | None) -> TargetRelation:
    """How strongly targets depend on tokens around, and each token on the one before."""
    try:
        found = supervision(window, roles)
    except CannotReplay as reason:
        return TargetRelation({}, 0.0, untested=str(reason))
    tokens, places, targets, counted = found.tokens, found.places, found.targets, found.counted
    rows, columns = places // tokens.shape[1], places % tokens.shape[1]
    pairs = {}
    for offset in OFFSETS:
        there = columns + offset
        inside = counted & (there >= 0) & (there < tokens.shape[1])
        pairs[offset] = tokens[rows[inside], there[inside]], targets[inside], inside
    same = {o: float((x == y).double().mean()) if len(x) else 0.0 for o, (x, y, _) in pairs.items()}
    copied = max(same, key=lambda o: same[o])
    left = counted.clone()
    x, y, inside = pairs[copied]
    left[inside] &= x != y
    standing = {
        offset: stands_out(x[left[inside]], y[left[inside]])
        for offset, (x, y, inside) in pairs.items()
    }
    # As many pairs of the text itself.
    count = int(left.sum())
    before, after = tokens[:, :-1].reshape(-1), tokens[:, 1:].reshape(-1)
    order = torch.randperm(len(before), generator=_generator())[: max(count, 1)]
    return TargetRelation(standing, stands_out(before[order], after[order]))


def stands_out(first: Tensor, second: Tensor) -> float:
    """How far the table of these pairs is from those of shuffled ones, in standard deviations.

    >>> x = torch.arange(600) % 12
    >>> stands_out(x, x + 1) > 20
    True
    """
    if len(first) < BINS:
        return 0.0
    a, b = _binned(first), _binned(second)
    generator = _generator()
    shuffled = torch.stack(
        [_concentration(a, b[torch.randperm(len(b), generator=generator)]) for _ in range(SHUFFLES)]
    )
    spread = float(shuffled.std())
    return float(_concentration(a, b) - shuffled.mean()) / spread if spread > 0 else 0.0


def _binned(values: Tensor) -> Tensor:
    return ((values.long() * SPREAD) % (1 << 32)) // ((1 << 32) // BINS)


def _concentration(a: Tensor, b: Tensor) -> Tensor:
    """Squared counts over what independent bins would have."""
    table = torch.bincount(a * BINS + b, minlength=BINS * BINS).double().reshape(BINS, BINS)
    expected = table.sum(1, keepdim=True) * table.sum(0, keepdim=True)
    return (table.square() / expected.clamp(min=1.0)).sum()


def _generator() -> torch.Generator:
    # Of its own: the program's random numbers are not touched.
    return torch.Generator().manual_seed(SEED)


PROBE = Probe(TargetRelation, lambda a: target_relation(a.window, a.loss_roles))
