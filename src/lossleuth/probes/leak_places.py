"""Where on the way to the logits a leak comes in: the first operation that shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from lossleuth.places import is_library
from lossleuth.probes.leaks import others_than
from lossleuth.tape.replay import Replay
from lossleuth.tape.roles import Roles, token_values
from lossleuth.tape.schemas import tensors_in
from lossleuth.tape.substitutes import CannotReplay
from lossleuth.tape.tape import Operation
from lossleuth.tape.window import Window

# A sum that moves by less than this share is rounding.
ROUNDING = 1e-9


def future_leak_place(window: Window, roles: Roles) -> str | None:
    """The first operation whose result at earlier positions depends on a later token."""
    tokens = token_values(window.tape, roles)
    if tokens is None or tokens.dim() != 2:
        return None
    middle = tokens.shape[1] // 2
    changed = tokens.clone()
    changed[:, middle] = others_than(tokens, tokens[:, middle])
    return _first_moved(window, roles, tokens, changed, tokens.shape[1], slice(0, middle))


def batch_leak_place(window: Window, roles: Roles) -> str | None:
    """The first operation whose result in other rows depends on the first row."""
    tokens = token_values(window.tape, roles)
    if tokens is None or tokens.dim() != 2 or len(tokens) < 2:
        return None
    changed = tokens.clone()
    changed[0] = others_than(tokens, tokens[0])
    return _first_moved(window, roles, tokens, changed, tokens.shape[0], slice(1, None))


def _first_moved(
    window: Window, roles: Roles, tokens: Tensor, changed: Tensor, size: int, kept: slice
) -> str | None:
    """Compare sums over what must not move, operation by operation."""
    try:
        before = _summaries(window, roles, tokens, size, kept)
        after = _summaries(window, roles, changed, size, kept)
    except CannotReplay:
        return None
    for number, (operation, values) in before.items():
        if number not in after:
            continue
        other = after[number][1]
        scale = float(values.abs().max()) or 1.0
        if float((values - other).abs().max()) > ROUNDING * scale:
            return _told(operation)
    return None


def _summaries(
    window: Window, roles: Roles, tokens: Tensor, size: int, kept: slice
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

    def swap(number: int, there: Tensor) -> Tensor:
        same = number == roles.tokens_at
        return tokens.reshape(there.shape).to(there.dtype) if same else there

    assert roles.logits is not None and roles.tokens is not None
    replay = Replay(window.tape, gradients=False, decided=False)
    replay.run([roles.logits], before=roles.run.at, inputs={roles.tokens: swap}, each=each)
    return found


def _told(operation: Operation) -> str | None:
    place = operation.place
    return None if place is None or is_library(place.file) else str(place)
