"""The line where a leak enters the logits, or where the input is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lossleuth.places import is_library
from lossleuth.probes.model.changed_tokens import (
    ChangedTokens,
    half_changed,
    moves,
    others_than,
    spread,
)
from lossleuth.tape.op_schemas import tensors_in
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.tape import Operation

# Results that never depend on the values that go in.
_CONSTANT = ("zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones")
# The share of a text, at its end, that a code of the whole text is told by. Picked by hand.
LAST_PART = 0.125
# A float64 sum that moves by less than this share moves by rounding. Picked by hand.
MAX_ROUNDING_SHARE = 1e-9


def future_leak_place(step: ChangedTokens) -> str | None:
    """The first operation whose result at earlier positions depends on a later token."""
    changed, kept = _later_changed(step)
    entry = _first_moved(step, changed, step.tokens.shape[1], kept)
    return None if entry is None else _told(entry)


def comes_through_a_code(step: ChangedTokens) -> bool:
    """Whether later tokens come in through a tensor without positions: a code of the whole text.

    An autoencoder means that; attention or a convolution that looks ahead has no such thing. What
    is in a code moves the first position as well, from wherever in the text it comes.
    """
    if not _end_moves_beginning(step):
        return False
    changed, kept = _later_changed(step)
    entry = _first_moved(step, changed, step.tokens.shape[1], kept)
    if entry is None:
        return False
    length, layouts = step.tokens.shape[1], step.window.tape.layouts
    codes = {i for i in entry.inputs if length not in layouts[i].shape}
    try:
        before, after = (_sums(step, given) for given in (step.tokens, changed))
    except CannotReplay:
        return False
    return any(before[i] != after.get(i) for i in codes if i in before)


def _end_moves_beginning(step: ChangedTokens) -> bool:
    """Whether the last tokens of texts move the first predictions that count.

    Those before the last prediction that counts, since texts may end in padding.
    """
    changed = step.tokens.clone()
    last = max(1, round(LAST_PART * changed.shape[1]))
    for text in range(len(changed)):
        times = step.times[step.counted & (step.texts == text)]
        end = int(times.max()) + 1 if len(times) else changed.shape[1]
        part = slice(max(0, end - last), end)
        changed[text, part] = others_than(step.tokens, step.tokens[text, part])
    try:
        before, after = step.rows(step.tokens), step.rows(changed)
    except CannotReplay:
        return False
    counted = step.counted if bool(step.counted.any()) else torch.ones_like(step.counted)
    first = counted & (step.times == step.times[counted].min())
    moved = moves(after, before)[first]
    return bool((moved > MAX_ROUNDING_SHARE * spread(before)).any())


def batch_leak_place(step: ChangedTokens) -> str | None:
    """The first operation whose result in other texts depends on the changed ones."""
    tokens = step.tokens
    if len(tokens) < 2:
        return None
    changed, _ = half_changed(tokens, 0)
    entry = _first_moved(step, changed, tokens.shape[0], slice(1, None, 2))
    return None if entry is None else _told(entry)


def lost_input_place(step: ChangedTokens) -> str | None:
    """The operation on the way to the logits that other tokens enter and do not leave."""
    tokens = step.tokens
    try:
        changed = others_than(tokens, tokens.reshape(-1)).reshape(tokens.shape)
        before, after = (_sums(step, given) for given in (tokens, changed))
    except CannotReplay:
        return None
    moved = {i for i, value in before.items() if i in after and value != after[i]}
    return _end_of_way(step, moved)


def _end_of_way(step: ChangedTokens, moved: set[int]) -> str | None:
    """The operation next to the logits that takes a tensor that moved, where they did not."""
    makers = step.window.tape.makers()
    waiting = [part.logits for part in step.roles.parts if part.logits is not None]
    seen = set(waiting)
    while waiting:
        operation = makers.get(waiting.pop(0))
        if operation is None:
            continue
        if not moved.isdisjoint(operation.inputs) and operation.name not in _CONSTANT:
            return _told(operation)
        waiting += [i for i in operation.inputs if i not in seen]
        seen.update(operation.inputs)
    return None


def lost_past_place(step: ChangedTokens) -> str | None:
    """The operation on the way to later logits that earlier tokens enter and do not leave."""
    tokens = step.tokens
    middle = max(1, tokens.shape[1] // 2)
    changed = tokens.clone()
    changed[:, :middle] = others_than(tokens, tokens[:, :middle])
    try:
        before, after = (_later_sums(step, given, middle) for given in (tokens, changed))
    except CannotReplay:
        return None
    moved = {i for i, value in before.items() if i in after and value != after[i]}
    return _end_of_way(step, moved)


def _later_sums(step: ChangedTokens, tokens: Tensor, middle: int) -> dict[int, float]:
    """What was made at later positions, a number for each tensor that has positions."""
    found: dict[int, float] = {}
    length = tokens.shape[1]

    def each(
        operation: Operation, _args: tuple[Any, ...], result: Any, _low: Callable[[], Any]
    ) -> None:
        for number, made in zip(operation.outputs, tensors_in(result), strict=False):
            if number is None or not made.is_floating_point() or length not in made.shape:
                continue
            rows = made.detach().movedim(list(made.shape).index(length), 0)[middle:].double()
            rows = rows.nan_to_num(0.0, 0.0, 0.0).reshape(-1)
            # Weighed by place: the same numbers elsewhere are another tensor.
            found[number] = float(rows @ torch.linspace(0.5, 1.5, len(rows), dtype=torch.float64))

    step.replay(tokens, each)
    return found


def _sums(step: ChangedTokens, tokens: Tensor) -> dict[int, tuple[float, float]]:
    """Each tensor that was made, in two numbers."""
    found: dict[int, tuple[float, float]] = {}

    def each(
        operation: Operation, _args: tuple[Any, ...], result: Any, _low: Callable[[], Any]
    ) -> None:
        for number, made in zip(operation.outputs, tensors_in(result), strict=False):
            if number is not None and made.is_floating_point():
                wide = made.detach().double().reshape(-1)
                # Weighed by place: the same numbers elsewhere are another tensor.
                weights = torch.linspace(0.5, 1.5, len(wide), dtype=torch.float64)
                found[number] = (float(wide @ weights), float(wide.square() @ weights))

    step.replay(tokens, each)
    return found


def _later_changed(step: ChangedTokens) -> tuple[Tensor, slice]:
    """Other tokens in the second half of each text, and the positions before."""
    tokens = step.tokens
    middle = max(1, tokens.shape[1] // 2)
    changed = tokens.clone()
    changed[:, middle:] = others_than(tokens, tokens[:, middle:])
    return changed, slice(0, middle)


def _first_moved(step: ChangedTokens, changed: Tensor, size: int, kept: slice) -> Operation | None:
    """Compare sums over what must not move, operation by operation."""
    try:
        before = _summaries(step, step.tokens, size, kept)
        after = _summaries(step, changed, size, kept)
    except CannotReplay:
        return None
    for number, (operation, values) in before.items():
        if number not in after:
            continue
        other = after[number][1]
        scale = float(values.abs().max()) or 1.0
        if float((values - other).abs().max()) > MAX_ROUNDING_SHARE * scale:
            return operation
    return None


def _summaries(
    step: ChangedTokens, tokens: Tensor, size: int, kept: slice
) -> dict[int, tuple[Operation, Tensor]]:
    """For each result with just one axis of that size: its sums along the others, at `kept`."""
    found: dict[int, tuple[Operation, Tensor]] = {}

    def each(
        operation: Operation, _args: tuple[Any, ...], result: Any, _low: Callable[[], Any]
    ) -> None:
        made = next(iter(tensors_in(result)), None)
        if made is None or not made.is_floating_point():
            return
        axes = [axis for axis, length in enumerate(made.shape) if length == size]
        if len(axes) == 1:
            rows = made.detach().movedim(axes[0], 0)[kept].double()
            # Squares as well: a sum alone may hide what cancels.
            flat = rows.reshape(len(rows), -1)
            found[operation.number] = (operation, flat.sum(1) + flat.square().sum(1))

    step.replay(tokens, each)
    return found


def _told(operation: Operation) -> str | None:
    place = operation.place
    return None if place is None or is_library(place.file) else str(place)
