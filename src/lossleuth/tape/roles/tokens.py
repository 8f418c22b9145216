"""The tokens of a step: whole numbers from the data that are looked up on the way to the logits."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import is_random
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.walk_back import through_moves, walk_back


@dataclass(frozen=True)
class Tokens:
    """A tensor of whole numbers, and the operations that take it on the way to the logits."""

    number: int
    # Its values are those that it has before this operation.
    at: int
    used: frozenset[int]
    count: int


@dataclass(frozen=True)
class _Lookup:
    operation: Operation
    index: int
    # The index, what it was taken from, and so on.
    path: tuple[int, ...]


def find_tokens(
    tape: Tape, logits: Sequence[int], rows: Sequence[int], vocabulary: int
) -> Tokens | None:
    """The lookup with one token for each row of logits, else the largest, latest one.

    An encoder's tokens are looked up before the decoder's, whose rows are the logits'. `rows` are
    the numbers of rows that there may be, the likeliest first.
    """
    lookups = _lookups(tape, logits)
    if not lookups:
        return None
    found = max(lookups, key=lambda one: _rank(tape, one, rows, vocabulary))
    size = _count(tape, found.index)
    if size not in rows:
        loop = _loop(tape, found, lookups)
        if loop is not None:
            return loop
    at = found.operation.number
    return Tokens(found.index, at, frozenset([at]), size)


def unused_tokens(tape: Tape, before: int, dead: Collection[int]) -> Tokens | None:
    """The largest lookup of data in tables that the loss has no gradient for.

    `dead` are those tables: where no token reaches the logits, that is where the input ends.
    """
    found: Tokens | None = None
    for operation in tape.operations[:before]:
        index = _index(tape, operation, tape.parameters)
        if index is None or operation.inputs[0] not in dead:
            continue
        if _counts_up(tape, index) or _is_computed(tape, index, operation.number, tape.parameters):
            continue
        at = operation.number
        one = _Lookup(operation, index, (index,))
        if _is_constant(tape, one) or (found is not None and found.count > _count(tape, index)):
            continue
        found = Tokens(index, at, frozenset([at]), _count(tape, index))
    return found


def lookups_by_constancy(
    tape: Tape, logits: Sequence[int], before: int
) -> tuple[list[Operation], list[Operation]]:
    """Lookups of data for all positions of several texts: of one same token, and of others."""
    same, varied = list[Operation](), list[Operation]()
    parameters = tape.parameters
    for operation in tape.needed_for(logits, before):
        index = _index(tape, operation, parameters)
        if index is None or sum(size > 1 for size in tape.layouts[index].shape) < 2:
            continue
        if _counts_up(tape, index) or _is_computed(tape, index, operation.number, parameters):
            continue
        (same if _is_constant(tape, _Lookup(operation, index, (index,))) else varied).append(
            operation
        )
    return same, varied


def values_of(tape: Tape, tokens: Tokens) -> Tensor | None:
    """The tokens as the program looked them up."""
    replay = Replay(tape, gradients=False)
    try:
        found = replay.run([tokens.number], before=tokens.at)[tokens.number]
    except CannotReplay:
        return None
    return found.detach().clone()


def tokens_of(tape: Tape, scores: int, vocabulary: int) -> Tensor | None:
    """The tokens behind some logits, if there is one for each row."""
    rows = _count(tape, scores) // max(vocabulary, 1)
    found = find_tokens(tape, [scores], [rows], vocabulary)
    return None if found is None or found.count != rows else values_of(tape, found)


def tokens_behind(tape: Tape, logits: int, classes: int) -> tuple[int, int] | None:
    """The tokens that some logits were made of, and the operation that looks them up."""
    rows = [_count(tape, logits) // max(classes, 1)]
    found = find_tokens(tape, [logits], rows, classes)
    return None if found is None else (found.number, found.at)


def _lookups(tape: Tape, logits: Sequence[int]) -> list[_Lookup]:
    """Every lookup of data on the way to the logits; without constants, if anything else is."""
    makers = tape.makers()
    last = max((makers[i].number + 1 for i in logits if i in makers), default=0)
    parameters, sources = tape.parameters, dict[int, bool]()

    found: list[_Lookup] = []
    counting: list[_Lookup] = []
    for operation in tape.needed_for(logits, last):
        index = _index(tape, operation, parameters)
        if index is None:
            continue
        path = tuple(walk_back(index, through_moves(makers)))
        source = path[-1]
        if source not in sources:
            # All that is taken from one tensor is data, or is not.
            counts = _counts_up(tape, index)
            sources[source] = not (
                counts or _is_computed(tape, index, operation.number, parameters)
            )
            if counts and source in tape.leaves and _rows_differ(tape.value(source)):
                counting.append(_Lookup(operation, index, path))
        if sources[source]:
            found.append(_Lookup(operation, index, path))
    # A text may count up too, but positions are the same in all texts.
    found = found or counting
    varied = [one for one in found if not _is_constant(tape, one)] if len(found) > 1 else found
    return varied or found


def _rank(
    tape: Tape, one: _Lookup, rows: Sequence[int], vocabulary: int
) -> tuple[int, bool, int, int]:
    size = _count(tape, one.index)
    # Rows of logits first, then rows of features, then the largest.
    fits = len(rows) - rows.index(size) if size in rows else 0
    # Segment ids are looked up too, in a table without a row for each class.
    table = tape.layouts[one.operation.inputs[0]].shape[:1] == (vocabulary,)
    return fits, table, size, one.operation.number


def _loop(tape: Tape, found: _Lookup, lookups: Sequence[_Lookup]) -> Tokens | None:
    """The tensor that a loop takes its tokens from, a few at a time."""
    size, place = _count(tape, found.index), found.operation.place
    turns = [
        one
        for one in lookups
        if one.path[-1] == found.path[-1]
        and _count(tape, one.index) == size
        and one.operation.place == place
    ]
    if len(turns) < 2:
        return None
    shared = set.intersection(*(set(one.path) for one in turns))
    common = next((number for number in found.path if number in shared), None)
    if common is None or _count(tape, common) < size:
        return None
    makers = tape.makers()
    used = set()
    for one in turns:
        at = one.path.index(common)
        used.add(makers[one.path[at - 1]].number if at else one.operation.number)
    return Tokens(common, max(used), frozenset(used), _count(tape, common))


def _index(tape: Tape, operation: Operation, parameters: dict[int, Tensor]) -> int | None:
    """The indices of a lookup in a table; None if it is none."""
    if operation.name == "embedding":
        return operation.inputs[1]
    if operation.name in ("index", "index_select") and len(operation.inputs) == 2:
        table, index = operation.inputs
        known = table in parameters or (not parameters and table in tape.leaves)
        if tape.layouts[table].dtype.is_floating_point and _is_whole(tape, index) and known:
            return index
    if operation.name in ("scatter", "scatter_") and len(operation.inputs) == 2:
        # One-hot rows, which a product with the table turns into a lookup.
        index = operation.inputs[1]
        return index if _is_whole(tape, index) else None
    return None


def _is_whole(tape: Tape, number: int) -> bool:
    return tape.layouts[number].dtype in (torch.int64, torch.int32)


def _is_constant(tape: Tape, one: _Lookup) -> bool:
    """Whether the same number is looked up everywhere, as token types often are."""
    at = one.operation.number
    value = values_of(tape, Tokens(one.index, at, frozenset([at]), _count(tape, one.index)))
    return value is not None and value.numel() > 1 and bool((value == value.reshape(-1)[0]).all())


def _counts_up(tape: Tape, number: int) -> bool:
    """Whether integers come from counting alone, as positions do."""
    operations = tape.needed_for([number])
    made = [op for op in operations if number in op.outputs]
    if not made:
        return _is_consecutive(tape.value(number)) if number in tape.leaves else False
    leaves = {i for op in operations for i in op.inputs if i in tape.leaves}
    if any(is_random(op.kind) for op in operations):
        return False
    if any(op.name in ("arange", "cumsum") for op in operations):
        whole = [i for i in leaves if not tape.layouts[i].dtype.is_floating_point]
        return not any(_count(tape, i) > 1 and not _is_mask(tape, i) for i in whole)
    return bool(leaves) and all(_is_consecutive(tape.value(i)) for i in leaves)


def _is_computed(tape: Tape, number: int, before: int, parameters: dict[int, Tensor]) -> bool:
    """Whether the model computed these numbers itself, so that they are no input."""
    operations = tape.needed_for([number], before)
    return any(i in parameters for operation in operations for i in operation.inputs)


def _is_mask(tape: Tape, number: int) -> bool:
    value = tape.value(number)
    return bool(((value == 0) | (value == 1)).all())


def _rows_differ(tensor: Tensor) -> bool:
    return tensor.dim() > 1 and bool((tensor != tensor[:1]).any())


def _is_consecutive(tensor: Tensor) -> bool:
    rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.reshape(1, 1)
    if rows.shape[1] < 2 or rows.dtype is torch.bool:
        return False
    # Mostly: positions start again in packed documents. In every row: one row of tokens may count
    # up by chance.
    return bool(((rows[:, 1:] - rows[:, :-1] == 1).double().mean(1) > 0.5).all())


def _count(tape: Tape, number: int) -> int:
    return math.prod(tape.layouts[number].shape)
