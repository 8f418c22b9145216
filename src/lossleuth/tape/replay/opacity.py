"""Which parameters lie behind an operation that cannot be replayed.

A function that computes outside torch, or an operation that somebody registered with a derivative
of their own, cuts the replay off from what is upstream: there nothing can be said.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor

from lossleuth.tape.op_schemas import is_foreign
from lossleuth.tape.tape import FunctionCall, Operation, Tape

# Operations whose derivative is zero or undefined everywhere.
STEPS = frozenset(
    ("round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "argmin", "argmax", "bucketize")
)


def hidden_parameters(
    tape: Tape, roots: list[int], before: int, trusted: Collection[int] = ()
) -> dict[int, str]:
    """Parameters whose gradient passes through an opaque operation, each with the reason.

    Of the calls of custom functions, by index, that are `trusted`, the backward was measured and is
    right: a replay uses it.
    """
    found: dict[int, str] = {}
    # Operations behind an opaque one that was looked at: whatever they use has its reason.
    covered: set[int] = set()
    operations = tape.needed_for(roots, before)
    for index in sorted(opaque_calls(tape, before) - set(trusted)):
        call = tape.functions[index]
        reason = f"opaque: {call.name} at {call.place} computes outside torch"
        if call.opaque_because is not None:
            reason = f"{reason}, and cannot be run again: {call.opaque_because}"
        _add(tape, found, covered, _given(tape, call), call.first, reason)
    for call in tape.functions:
        if call.first < before and is_straight_through(tape, call):
            reason = f"straight-through: {call.name} at {call.place} has no slope of its own"
            _add(tape, found, covered, call.inputs, call.first, reason)
    for operation in operations:
        if is_foreign(operation.kind) and any(operation.requires_grad):
            reason = f"opaque: {operation.kind} at {operation.place} has a derivative of its own"
            _add(tape, found, covered, operation.inputs, operation.number, reason)
    return found


def blocked_by(tape: Tape, changed: Collection[int], operations: Sequence[Operation]) -> str | None:
    """Why results of these operations would not follow a change of some tensors, if so."""
    stuck = [call for call in tape.functions if call.opaque_because is not None]
    used = {i for operation in operations for i in operation.inputs} if stuck else set()
    for call in stuck:
        if used & _results(tape, call) and _leads_to(tape, changed, call):
            return (
                f"opaque: {call.name} at {call.place} computes outside torch, and cannot be run "
                f"again: {call.opaque_because}"
            )
    return None


def _results(tape: Tape, call: FunctionCall) -> set[int]:
    """What a call gave; inside another function nothing of it has a gradient: what it made."""
    inside = tape.operations[call.first : call.last + 1]
    made = {o for operation in inside for o in operation.outputs if o is not None}
    return {*call.outputs.values()} or made


def _leads_to(tape: Tape, changed: Collection[int], call: FunctionCall) -> bool:
    given = _given(tape, call)
    above = {i for operation in tape.needed_for(given, call.first) for i in operation.inputs}
    return any(number in changed for number in (*above, *given))


def _given(tape: Tape, call: FunctionCall) -> list[int]:
    """What a call was given; where that was not seen, all that there was."""
    if call.inputs or call.opaque_because is None:
        return list(call.inputs)
    return [i for operation in tape.operations[: call.first] for i in operation.inputs]


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
    for index, call in enumerate(tape.functions):
        # A result that no operation has made.
        strange = {*call.outputs.values()} & tape.leaves.keys() - {*call.inputs}
        if strange and (before is None or call.first < before):
            found.add(index)
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
    numbers: Sequence[int],
    at: int,
    reason: str,
) -> None:
    parameters = tape.parameters
    needed = {i for op in tape.newly_needed(numbers, at, covered) for i in op.inputs}
    for number in {*needed, *numbers}:
        if number in parameters:
            found.setdefault(number, reason)
