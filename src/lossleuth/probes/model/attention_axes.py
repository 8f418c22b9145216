"""Weights that sum to 1 along one axis and are used to sum over another.

Attention gives every query weights that sum to 1 over the keys, and sums the values over the keys.
Whatever made the weights, a softmax or its parts, their sums tell along which axis they were made;
the product tells along which they are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import MOVES
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.tape import Operation, Ref, Tape
from lossleuth.tape.walk_back import walk_back

_PRODUCTS = frozenset(("bmm", "mm", "matmul", "baddbmm"))
_DROPOUTS = frozenset(("native_dropout", "dropout"))
# How far a sum of weights may be from 1. Sums are taken in the program's own precision or better.
# Picked by hand.
MAX_DISTANCE_FROM_ONE = 1e-3
# Elements of the largest weights that are examined: more would take the memory of a second model.
MAX_WEIGHTS = 1 << 24


@dataclass(frozen=True)
class _Used:
    """A factor of a product, and what it was made of by mere movement and dropout."""

    product: Operation
    factor: int
    # The axis that the product sums over.
    contracted: int
    # As it was made, and as it was before anything moved after the last dropout.
    made: int
    moved_from: int


def crossed_weights(tape: Tape, roles: Roles | None) -> list[tuple[str | None, int | None]]:
    """File and line of weights on the way to the logits that are used along another axis."""
    if roles is None or roles.logits is None:
        return []
    makers = tape.makers()
    used = _factors(tape, makers, roles)
    if not used:
        return []
    wanted = [roles.logits]
    # Nothing is dropped: sums are as they were before a dropout.
    replay = Replay(tape, gradients=False, float64=False, dropout=False)
    try:
        made = replay.run(wanted, before=roles.run.at, kept={u.made for u in used})
    except CannotReplay:
        return []
    found: dict[tuple[str | None, int | None], None] = {}
    for one in used:
        if one.made in made and _is_crossed(tape, one, made[one.made]):
            place = makers[one.made].place
            found.setdefault((None, None) if place is None else (place.file, place.line))
    return list(found)


def _factors(tape: Tape, makers: dict[int, Operation], roles: Roles) -> list[_Used]:
    """Factors of the matrix products behind the logits."""
    assert roles.logits is not None
    found = []
    for operation in tape.needed_for([roles.logits], roles.run.at):
        if operation.name not in _PRODUCTS:
            continue
        factors = [a.id for a in operation.args if type(a) is Ref][-2:]
        for position, factor in enumerate(factors):
            rank = len(tape.layouts[factor].shape)
            if rank < 2:
                continue
            made, moved_from = _made_of(makers, factor)
            if made in makers and _elements(tape, made) <= MAX_WEIGHTS:
                contracted = rank - 1 if position == 0 else rank - 2
                found.append(_Used(operation, factor, contracted, made, moved_from))
    return found


def _made_of(makers: dict[int, Operation], factor: int) -> tuple[int, int]:
    """Back through movement and dropout: what was made, and where movement began for good."""

    def source(number: int) -> int | None:
        maker = makers.get(number)
        if maker is None or not (maker.name in MOVES or maker.name in _DROPOUTS):
            return None
        return maker.inputs[0] if maker.inputs else None

    way = list(walk_back(factor, source))
    # The last dropout on the way back is the one that comes first in the program.
    dropouts = [i for i in way[:-1] if makers[i].name in _DROPOUTS]
    return way[-1], dropouts[-1] if dropouts else way[-1]


def _is_crossed(tape: Tape, used: _Used, weights: Tensor) -> bool:
    axes = _axes_of_ones(weights)
    if not axes or tape.layouts[used.made].shape != tape.layouts[used.moved_from].shape:
        return False
    return not any(_arrives(tape, used, axis) for axis in axes)


def _axes_of_ones(weights: Tensor) -> list[int]:
    """The axes along which no weight is negative and all sum to 1."""
    if weights.dim() < 2 or not weights.is_floating_point() or not weights.numel():
        return []
    low, high = (float(x) for x in weights.aminmax())
    # A table of ones and zeros picks; it does not weigh.
    if not (low >= 0 and high > 0) or bool(((weights == 0) | (weights == 1)).all()):
        return []
    wide = [axis for axis in range(weights.dim()) if weights.shape[axis] > 1]
    return [a for a in wide if float((weights.sum(a) - 1).abs().max()) < MAX_DISTANCE_FROM_ONE]


def _arrives(tape: Tape, used: _Used, axis: int) -> bool:
    """Whether an axis is the one that is summed over: places on it are sent after the weights."""
    shape = tape.layouts[used.moved_from].shape
    numbers = torch.arange(shape[axis], dtype=torch.float64)
    numbered = numbers.reshape([-1 if i == axis else 1 for i in range(len(shape))]).expand(shape)
    arrived = numbered
    if used.factor != used.moved_from:
        maker = tape.makers()[used.moved_from]
        try:
            arrived = Replay(tape, gradients=False).run(
                [used.factor],
                before=used.product.number,
                since=maker.number + 1,
                leaves={used.moved_from: numbered.clone()},
            )[used.factor]
        except CannotReplay:
            return True
    along = arrived.movedim(used.contracted, -1)
    # A part of the axis, as of a mixture of the best few, is the axis still.
    return bool((along.diff(dim=-1) > 0).all()) and along.shape[-1] > 1


def _elements(tape: Tape, number: int) -> int:
    count = 1
    for size in tape.layouts[number].shape:
        count *= size
    return count
