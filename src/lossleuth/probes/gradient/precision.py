"""What low precision does to a step, operation by operation.

Each operation is done in float64 and once more in its recorded types from the same inputs: its own
rounding error, apart from what it inherits. And where a loss is not finite: the first operation
that made something non-finite out of finite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import EMPTY, is_random, is_view, tensors_in
from lossleuth.tape.replay.gradients import shared_gradients
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.replay.substitutes import CannotReplay
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Backward, Window

MOST = 10
# Infinity is what these are for.
_MASKS = ("full", "full_like", "masked_fill", "masked_fill_", "fill_", "where", "scalar_tensor")


@dataclass(frozen=True)
class OperationError:
    """An operation and its own rounding error, as a share of its result's norm."""

    name: str
    file: str | None
    line: int | None
    module: str | None
    dtype: str
    error: float


@dataclass(frozen=True)
class NonFinite:
    """The first operation that turned finite numbers into others."""

    name: str
    file: str | None
    line: int | None
    module: str | None
    # "nan" or "inf", and the largest number that went in.
    what: str
    largest_input: float


def precision(window: Window, run: Backward) -> list[OperationError]:
    """The operations with the largest errors of their own, the worst first."""
    found: list[OperationError] = []

    def each(
        operation: Operation, _args: tuple[Any, ...], result: Any, recorded: Callable[[], Any]
    ) -> None:
        skipped = is_view(operation.kind) or is_random(operation.kind) or bool(operation.written)
        skipped = skipped or operation.name in EMPTY
        # A change of type has no error of its own where it widens.
        skipped = skipped or (operation.name == "_to_copy" and _widens(window.tape, operation))
        wide = [t for t in tensors_in(result) if t.dtype == torch.float64]
        if skipped or not wide or operation.outputs[0] is None:
            return
        low = next(iter(tensors_in(recorded())), None)
        if low is None or low.shape != wide[0].shape:
            return
        size = float(wide[0].norm())
        error = float((low.double() - wide[0]).norm()) / size if size else 0.0
        if math.isfinite(error):
            dtype = str(window.tape.layouts[operation.outputs[0]].dtype).removeprefix("torch.")
            found.append(OperationError(*_where(operation), dtype, error))

    try:
        roots = [root for root in run.roots if root is not None]
        Replay(window.tape, gradients=False).run(roots, before=run.at, each=each)
    except CannotReplay:
        pass  # what was measured up to there still holds
    return sorted(found, key=lambda o: -o.error)[:MOST]


def first_non_finite(window: Window, run: Backward) -> NonFinite | None:
    """Where a loss that is not finite went wrong; None if it is finite or started so."""
    found: list[NonFinite] = []

    def each(
        operation: Operation, args: tuple[Any, ...], result: Any, _recorded: Callable[[], Any]
    ) -> None:
        if found or operation.name in _MASKS:
            return
        bad = [t for t in tensors_in(result) if t.is_floating_point() and not _finite(t)]
        inputs = [t for t in tensors_in(args) if t.is_floating_point() and t.numel()]
        if not bad or not inputs or any(bool(torch.isnan(t).any()) for t in inputs):
            return
        has_nan = bool(torch.isnan(bad[0]).any())
        if not has_nan and not all(map(_finite, inputs)):
            return  # an infinity that was put there on purpose is passed on
        largest = max(float(t[torch.isfinite(t)].abs().max()) for t in inputs if _any_finite(t))
        found.append(NonFinite(*_where(operation), "nan" if has_nan else "inf", largest))

    roots = [root for root in run.roots if root is not None]
    try:
        if shared_gradients(window, run, wide=False).is_finite:
            return None
    except CannotReplay:
        # It may still be possible without gradients.
        pass
    try:
        made = Replay(window.tape, wide=False, gradients=False).run(roots, before=run.at, each=each)
    except CannotReplay:
        return None
    return found[0] if found and not all(_finite(made[root]) for root in roots) else None


def _where(operation: Operation) -> tuple[str, str | None, int | None, str | None]:
    place = operation.place
    file, line = (None, None) if place is None else (place.file, place.line)
    return operation.name, file, line, operation.module


def _widens(tape: Tape, operation: Operation) -> bool:
    made = operation.outputs[0]
    if made is None or not operation.inputs:
        return False
    return tape.layouts[made].dtype.itemsize > tape.layouts[operation.inputs[0]].dtype.itemsize


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


def _any_finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).any())
