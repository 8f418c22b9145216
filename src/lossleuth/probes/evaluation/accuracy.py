"""Accuracies: predictions compared with labels, and which token each label is.

Where a guess comes from is found by sending numbers of positions the way that the scores went.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.findings.evaluation import Accuracy
from lossleuth.tape.op_schemas import MOVES
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.index import Index, without_graph
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.alignment import OFFSETS
from lossleuth.tape.roles.tokens import tokens_of
from lossleuth.tape.tape import Operation
from lossleuth.tape.walk_back import origin
from lossleuth.tape.window import Window

# Comparisons of guesses with labels that are examined in one evaluation. Picked by hand.
MAX_COMPARISONS = 16
# Operations that find the best guess, and which of their results is its number.
GUESSES = {"argmax": 0, "max": 1}


@dataclass(frozen=True)
class _Comparison:
    operation: Operation
    guess: Operation
    guesses: int
    guesses_used: int
    labels: int


def accuracies(window: Window, index: Index) -> list[Accuracy]:
    """Every comparison of predictions with labels whose result the user's code reads."""
    found: list[Accuracy] = []
    for comparison in _comparisons(index)[:MAX_COMPARISONS]:
        with suppress(CannotReplay):
            accuracy = _accuracy(index, comparison)
            if accuracy is not None:
                found.append(accuracy)
    return found


def _comparisons(index: Index) -> list[_Comparison]:
    tape = index.tape
    # Guesses under every name that they go by, and comparisons that a number depends on.
    guesses: dict[int, tuple[Operation, int]] = {}
    depends: dict[int, set[int]] = {}
    found: dict[int, _Comparison] = {}
    read: set[int] = set()
    users = {r.at for r in tape.reads if r.by_user}
    for operation in tape.operations:
        of = set[int]().union(*(depends.get(i, set()) for i in operation.inputs))
        if operation.number in users:
            read |= of
        which = GUESSES.get(operation.name)
        if which is not None and which < len(operation.outputs):
            made = operation.outputs[which]
            if made is not None and not tape.layouts[made].dtype.is_floating_point:
                guesses[made] = (operation, made)
        elif operation.name in MOVES and operation.inputs and operation.inputs[0] in guesses:
            for made in operation.outputs:
                if made is not None:
                    guesses[made] = guesses[operation.inputs[0]]
        elif operation.name in ("eq", "ne") and len(operation.inputs) == 2:
            used = [i for i in operation.inputs if i in guesses]
            if len(used) == 1:
                guess, made = guesses[used[0]]
                (labels,) = (i for i in operation.inputs if i != used[0])
                of.add(operation.number)
                found[operation.number] = _Comparison(operation, guess, made, used[0], labels)
        if of:
            depends |= {made: of for made in operation.outputs if made is not None}
            depends |= {made: depends.get(made, set()) | of for made in operation.written}
    return [comparison for number, comparison in found.items() if number in read]


def _accuracy(index: Index, comparison: _Comparison) -> Accuracy | None:
    tape, before = index.tape, comparison.operation.number
    scores = _computed(index, comparison.guess.inputs[0])
    shape = tape.layouts[scores].shape
    classes, labels_layout = shape[-1] if shape else 0, tape.layouts[comparison.labels]
    if labels_layout.dtype.is_floating_point or math.prod(labels_layout.shape) < 2 or classes < 2:
        return None
    forward = without_graph(index.excerpt([scores]))
    tokens = tokens_of(forward, scores, classes)
    if tokens is None or tokens.dim() != 2:
        return None
    places = _places(index, comparison, scores)
    guesses = _value(index, comparison.guesses_used, before).reshape(-1)
    labels = _value(index, comparison.labels, before).reshape(-1)
    if not len(places) == len(labels) == len(guesses):
        return None
    valid = (labels >= 0) & (labels < classes)
    places, guesses, labels = places[valid], guesses[valid], labels[valid]
    shares, aligned = _shares(tokens, places, guesses, labels)
    if not shares:
        return None
    best = max(shares, key=lambda o: (shares[o], o == 1))
    value = float((guesses == labels).double().mean())
    place = comparison.operation.place
    place_name = None if place is None else str(place)
    following = shares.get(1, 0.0)
    return Accuracy(
        value=value,
        aligned=aligned,
        count=len(labels),
        offset=best,
        explained=shares[best],
        next_explained=following,
        place=place_name,
    )


def _computed(index: Index, number: int) -> int:
    """Go back through views and copies, as long as classes are the last axis."""
    layouts = index.tape.layouts
    classes = layouts[number].shape[-1:]

    def moved_from(moved: int) -> int | None:
        maker = index.maker(moved)
        if maker is None or maker.name not in MOVES or not maker.inputs:
            return None
        source = maker.inputs[0]
        return source if layouts[source].shape[-1:] == classes else None

    return origin(number, moved_from)


def _places(index: Index, comparison: _Comparison, scores: int) -> Tensor:
    """For each guess that is compared, the row of scores that it is of."""
    layouts, guess = index.tape.layouts, comparison.guess
    shape = layouts[scores].shape
    rows = math.prod(shape[:-1])
    numbered = torch.arange(rows, dtype=torch.float64)[:, None].expand(rows, shape[-1])
    moved = numbered.reshape(shape)
    if guess.inputs[0] != scores:
        given = guess.inputs[0]
        way = index.excerpt([given], guess.number, stops=[scores])
        moved = Replay(way, gradients=False).run([given], leaves={scores: moved})[given]
    if layouts[guess.inputs[0]].shape[-1] != shape[-1]:
        raise CannotReplay("the classes are not the last axis of the logits")
    chosen = moved[..., 0].long().reshape(layouts[comparison.guesses].shape)
    if comparison.guesses_used == comparison.guesses:
        return chosen.reshape(-1)
    used = comparison.guesses_used
    way = index.excerpt([used], comparison.operation.number, stops=[comparison.guesses])
    leaves = {comparison.guesses: chosen}
    return Replay(way, gradients=False).run([used], leaves=leaves)[used].reshape(-1)


def _value(index: Index, number: int, before: int) -> Tensor:
    if number in index.tape.leaves:
        return index.tape.value(number)
    return Replay(index.excerpt([number], before), float64=False, gradients=False).run([number])[
        number
    ]


def _shares(
    tokens: Tensor, places: Tensor, guesses: Tensor, labels: Tensor
) -> tuple[dict[int, float], float | None]:
    """How many labels are the token at each offset, and the accuracy against the next token."""
    length = tokens.shape[1]
    shares: dict[int, float] = {}
    aligned = None
    for offset in OFFSETS:
        column = places % length + offset
        inside = (column >= 0) & (column < length)
        if bool(inside.any()):
            there = tokens[(places // length)[inside], column[inside]]
            shares[offset] = float((there == labels[inside]).double().mean())
            if offset == 1:
                aligned = float((there == guesses[inside]).double().mean())
    return shares, aligned
