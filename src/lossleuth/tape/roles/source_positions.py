"""Where in the data tokens and targets were taken from, by sending positions instead of tokens.

Where a program slices inputs and targets out of one tensor, positions of that tensor are sent
through the very same slices. The distance of a target from its input is exact then, also where the
target is no part of the input, as in models that predict one token after a window.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import MOVES, is_random
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.tape import Tape
from lossleuth.tape.window import Window

# Operations that put numbers together without changing them, beside those that only move them.
_JOINS = frozenset(("stack", "cat", "gather", "roll", "flip", "repeat", "take", "unfold"))
# Positions of different pieces of memory, and of rows of a table, are further apart than any text.
_APART = 1 << 42


def target_distances(window: Window, roles: Roles, places: Tensor) -> Tensor | None:
    """For each row, how far its target is behind its token in the data; None if not known.

    Where token and target come from different data, that is a number far beyond any text.
    """
    if roles.tokens is None or any(part.targets is None for part in roles.parts):
        return None
    wanted = [part.targets for part in roles.parts if part.targets is not None]
    memories: dict[int, int] = {}
    try:
        tokens = _positions(window.tape, [roles.tokens], roles.tokens_at, memories)
        targets = _positions(window.tape, wanted, roles.run.at, memories)
    except CannotReplay:
        return None
    if tokens is None or targets is None or len(targets) != len(places):
        return None
    return targets - tokens[places]


def _positions(
    tape: Tape, numbers: list[int], before: int | None, memories: dict[int, int]
) -> Tensor | None:
    """Where these numbers were taken from; pieces of memory are counted in `memories`."""
    operations = tape.needed_for(numbers, before)
    leaves = {i for op in operations for i in op.inputs if i in tape.leaves}
    leaves |= {i for i in numbers if i in tape.leaves}
    carriers = {i for i in leaves if _is_data(tape, i)}
    if not carriers:
        return None
    given = {i: _addresses(tape, i, memories) for i in carriers}
    for operation in operations:
        # Indices are no data: only what they take is followed.
        source = operation.inputs[0] if operation.inputs else None
        joined = operation.name in ("stack", "cat")
        touched = [i for i in (operation.inputs if joined else (source,)) if i in carriers]
        if not touched:
            continue
        if operation.name not in MOVES | _JOINS or is_random(operation.kind):
            return None
        carriers.update(o for o in operation.outputs if o is not None)
    found = Replay(tape, gradients=False).run(numbers, before=before, leaves=given)
    if not all(i in carriers for i in numbers):
        return None
    return torch.cat([found[i].reshape(-1) for i in numbers])


def _is_data(tape: Tape, number: int) -> bool:
    """Whether a leaf may be tokens: whole numbers."""
    layout = tape.layouts[number]
    return not layout.dtype.is_floating_point and layout.dtype != torch.bool


def _addresses(tape: Tape, number: int, memories: dict[int, int]) -> Tensor:
    """The place in memory of each element of a leaf, in elements; rows of a table are apart."""
    leaf = tape.contents[number]
    try:
        memory = memories.setdefault(leaf.untyped_storage().data_ptr(), len(memories))
    except (RuntimeError, NotImplementedError) as error:
        raise CannotReplay(f"the memory of the data is not known: {error}") from error
    found = torch.full(leaf.shape, int(leaf.storage_offset()) + memory * _APART, dtype=torch.int64)
    for axis, (size, stride) in enumerate(zip(leaf.shape, leaf.stride(), strict=True)):
        shape = [-1 if i == axis else 1 for i in range(leaf.dim())]
        apart = stride if axis == leaf.dim() - 1 else stride + _APART // (1 << 20)
        found += (torch.arange(size) * apart).reshape(shape)
    return found
