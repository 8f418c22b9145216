"""Which parameters lie behind an operation that cannot be replayed.

A function that computes outside torch, or an operation that somebody registered with a derivative
of their own, cuts the replay off from what is upstream: there nothing can be said.
"""

from __future__ import annotations

from torch import Tensor

from lossleuth.tape.op_schemas import is_foreign
from lossleuth.tape.tape import FunctionCall, Operation, Tape

# Operations whose derivative is zero or undefined everywhere.
STEPS = frozenset(
    ("round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "argmin", "argmax", "bucketize")
)


def hidden_parameters(tape: Tape, roots: list[int], before: int) -> dict[int, str]:
    """Parameters whose gradient passes through an opaque operation, each with the reason."""
    found: dict[int, str] = {}
    # Operations behind an opaque one that was looked at: whatever they use has its reason.
    covered: set[int] = set()
    operations = tape.needed_for(roots, before)
    for index in sorted(opaque_calls(tape, before)):
        call = tape.functions[index]
        reason = f"opaque: {call.name} at {call.place} computes outside torch"
        _add(tape, found, covered, call.inputs, call.first, reason)
    for call in tape.functions:
        if call.first < before and is_straight_through(tape, call):
            reason = f"straight-through: {call.name} at {call.place} has no slope of its own"
            _add(tape, found, covered, call.inputs, call.first, reason)
    for operation in operations:
        if is_foreign(operation.kind) and any(operation.requires_grad):
            reason = f"opaque: {operation.kind} at {operation.place} has a derivative of its own"
            _add(tape, found, covered, operation.inputs, operation.number, reason)
    return found


def opaque_calls(tape: Tape, before: int | None = None) -> set[int]:
    """Indices of calls of custom functions that compute outside torch."""
    filled_outside = {tape.groups[number] for number in tape.opaque}
    parameters = tape.parameters
    found: set[int] = set()
    for operation in tape.operations[:before]:
        if operation.function is None or operation.function in found:
            continue
        made = {tape.groups[number] for number in operation.outputs if number is not None}
        if made & filled_outside or _meets_stranger(tape, operation, parameters):
            found.add(operation.function)
    return found


def is_straight_through(tape: Tape, call: FunctionCall) -> bool:
    """Whether a call is a straight-through step function: its backward passes its input on."""
    inside = tape.operations[call.first : call.last + 1]
    if not any(operation.name in STEPS for operation in inside):
        return False
    given = [gradient for gradient in call.given or () if gradient is not None]
    gave = [gradient for gradient in call.gave or () if gradient is not None]
    return any(g.shape == b.shape and bool((g == b).all()) for g in given for b in gave)


def _meets_stranger(tape: Tape, operation: Operation, parameters: dict[int, Tensor]) -> bool:
    """Whether a function uses values that it was not given and that torch did not compute."""
    assert operation.function is not None
    given = tape.functions[operation.function].inputs
    for number in operation.inputs:
        layout = tape.layouts[number]
        counts = layout.dtype.is_floating_point and layout.shape
        if counts and number in tape.leaves and number not in given and number not in parameters:
            return True
    return False


def _add(
    tape: Tape,
    found: dict[int, str],
    covered: set[int],
    numbers: tuple[int, ...],
    at: int,
    reason: str,
) -> None:
    parameters = tape.parameters
    needed = {i for op in tape.newly_needed(numbers, at, covered) for i in op.inputs}
    for number in {*needed, *numbers}:
        if number in parameters:
            found.setdefault(number, reason)
