"""Find the calls outside torch that a replay may make again: those that give what they gave."""

from __future__ import annotations

import torch

from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.opacity import opaque_calls
from lossleuth.tape.replay.outside import Values, run_again
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import FunctionCall, Tape

# Distance of two results of the same call, as a share of their norm, in units of rounding: its
# inputs are those of a replay, which may add up in another order. Picked by hand.
MAX_ULPS_APART = 16


def link_outside(tape: Tape) -> None:
    """Let replays make calls again that compute outside torch, where that gives what it gave.

    Each call is tried once; of those that cannot be made again, the reason is noted.
    """
    if not tape.functions:
        return
    calls = [tape.functions[index] for index in sorted(opaque_calls(tape))]
    known = {id(again.call) for again in tape.outside.values()}
    new = [c for c in calls if not c.recognised and c.opaque_because is None and id(c) not in known]
    for call in new:
        call.opaque_because = _refusal(tape, call)
    possible = [call for call in new if call.opaque_because is None]
    if not possible:
        return
    wanted = {i for call in possible for i in (*call.inputs, *call.outputs.values())}
    try:
        recorded = Replay(tape, float64=False, gradients=False).run(list(wanted))
    except CannotReplay as reason:
        for call in possible:
            call.opaque_because = str(reason)
        return
    for call in possible:
        call.opaque_because = _difference(tape, call, recorded)
    for call in possible:
        if call.opaque_because is None:
            tape.link_outside(call)


def _refusal(tape: Tape, call: FunctionCall) -> str | None:
    """Why a call is not even tried, if so."""
    if not call.outputs:
        return "nothing that it gave was used with a gradient"
    given = {tape.groups[number] for number in call.inputs}
    if any(tape.groups[number] in given for number in call.outputs.values()):
        return "it writes to its own input"
    inside = tape.operations[call.first : call.last + 1]
    written = {number for operation in inside for number in operation.written}
    if any(tape.groups[number] in tape.leaves for number in written):
        return "it writes to memory that the program keeps"
    return None


def _difference(tape: Tape, call: FunctionCall, recorded: Values) -> str | None:
    """What is against making a call again: it fails, or gives something else than it gave."""
    if any(i not in recorded for i in (*call.inputs, *call.outputs.values())):
        return "its inputs were not recorded"
    try:
        made = run_again(tape, call, recorded)
    except Exception as error:
        # It is the program's own code, and may refuse to be called once more.
        return f"{type(error).__name__}: {error}"
    for number, value in made.items():
        there = recorded[number]
        if value.shape != there.shape or value.dtype != there.dtype:
            return "run again on the same inputs it gives another shape or type"
        if torch.equal(value, there):
            continue
        size = float(there.double().norm())
        apart = float((value.double() - there.double()).norm())
        ulp = torch.finfo(there.dtype).eps if there.is_floating_point() else 0.0
        if not apart <= MAX_ULPS_APART * ulp * size:
            return f"run again on the same inputs its results differ by {apart / (size or 1.0):.1e}"
    return None
