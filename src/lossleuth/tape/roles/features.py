"""The features before the last layer: one row for each position.

Programs compute logits of some positions only, or chunk by chunk inside a function. The features
that they are made of are there once, for all positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lossleuth.tape.tape import Operation, Ref, Tape
from lossleuth.tape.walk_back import origin

PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm", "matmul", "linear"))


@dataclass(frozen=True)
class Features:
    """The features, and the matrix product that makes logits of them."""

    number: int
    # Its factor that came from the features, and when it is taken.
    factor: int
    taken_at: int


def find_features(
    tape: Tape, makers: dict[int, Operation], logits: int, moves: frozenset[str]
) -> Features | None:
    """Go back from logits to the last product with a parameter, and to the features in it."""
    size = math.prod(tape.layouts[logits].shape)

    def before_product(number: int) -> int | None:
        maker = makers.get(number)
        if maker is None or maker.name in PRODUCTS:
            return None
        # Scaling, capping, a bias: one input of the same size, whatever is done to it.
        floats = [i for i in maker.inputs if tape.layouts[i].dtype.is_floating_point]
        return next((i for i in floats if math.prod(tape.layouts[i].shape) == size), None)

    maker = makers.get(origin(logits, before_product))
    if maker is None or maker.name not in PRODUCTS:
        return None
    factors = [a.id for a in maker.args if type(a) is Ref and len(tape.layouts[a.id].shape) >= 2]
    free = [i for i in factors if _origin(makers, i, moves) not in tape.parameters]
    if len(factors) < 2 or len(free) != 1:
        return None
    return Features(_origin(makers, free[0], moves), free[0], maker.number)


@dataclass(frozen=True)
class Fused:
    """A fused function that computes a loss from features; its logits are never seen."""

    features: Features
    targets: int
    classes: int
    # The matrix that makes logits of the features.
    weight: int


def find_fused(
    tape: Tape, makers: dict[int, Operation], before: int, moves: frozenset[str]
) -> Fused | None:
    """The last call that takes features, a matrix with as many columns, a target for each row."""
    for call in reversed(tape.functions):
        if call.first >= before:
            continue
        shapes = {i: tape.layouts[i].shape for i in call.inputs}
        origins = {i: _origin(makers, i, moves) for i in call.inputs}
        whole = [i for i in call.inputs if not tape.layouts[i].dtype.is_floating_point]
        floats = [i for i in call.inputs if i not in whole and len(shapes[i]) >= 2]
        tables = [i for i in floats if origins[i] in tape.parameters and len(shapes[i]) == 2]
        for targets in whole:
            for number in floats:
                rows = math.prod(shapes[number][:-1])
                fitting = [t for t in tables if t != number and shapes[t][1] == shapes[number][-1]]
                if fitting and number not in tables and math.prod(shapes[targets]) == rows > 1:
                    features = Features(origins[number], number, call.first)
                    return Fused(features, targets, shapes[fitting[0]][0], origins[fitting[0]])
    return None


def _origin(makers: dict[int, Operation], number: int, moves: frozenset[str]) -> int:
    """Go back through views and copies to where these numbers were computed or came from."""

    def moved_from(moved: int) -> int | None:
        maker = makers.get(moved)
        return maker.inputs[0] if maker and maker.name in moves and maker.inputs else None

    return origin(number, moved_from)
