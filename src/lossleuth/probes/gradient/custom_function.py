"""Is the backward of each custom autograd function the derivative of its forward?

What the function's backward was given and gave is known from the run. The truth is the derivative
of the operations that its forward really did, taken by torch in float64; where it computes outside
torch, differences of its values.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from lossleuth.findings.gradient import CustomFunction
from lossleuth.probes.gradient.called_library import called_library
from lossleuth.probes.gradient.outside_gradient import MAX_SECONDS, measured_gradient
from lossleuth.probes.probe import Probe
from lossleuth.source_lines import line_of_result
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.replay.distance import distance, norm
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.link_outside import link_outside
from lossleuth.tape.replay.opacity import is_straight_through, opaque_calls
from lossleuth.tape.replay.replay import Cuts, Replay
from lossleuth.tape.tape import FunctionCall, Ref, Tape
from lossleuth.tape.window import Window

# Of a call by its inputs, or the reason why it is not known.
Derivative = dict[int, Tensor] | CannotReplay
# Processor seconds after which no further call outside torch is measured. Picked by hand.
MAX_SECONDS_OUTSIDE = 3.0


def custom_functions(window: Window) -> list[CustomFunction]:
    """All calls whose backward ran, the worst first."""
    found = judged_calls(window).values()
    return sorted(found, key=lambda f: -f.error if math.isfinite(f.error) else 0.0)


def judged_calls(window: Window) -> dict[int, CustomFunction]:
    """The same by the index of the call."""
    return window.once("custom functions", lambda: _judged(window.tape))


def trusted_calls(window: Window) -> set[int]:
    """Calls outside torch whose backward was measured and differs by no more than its bound."""
    return {
        index
        for index, found in judged_calls(window).items()
        if found.outside and found.untested is None and found.error <= found.floor
    }


def _judged(tape: Tape) -> dict[int, CustomFunction]:
    link_outside(tape)
    opaque = opaque_calls(tape)
    ran = {i: call for i, call in enumerate(tape.functions) if call.given is not None}
    plain = {i: call for i, call in ran.items() if i not in opaque}
    true = _derivatives(tape, plain, float64=True)
    noisy = _derivatives(tape, plain, float64=False)
    found = {i: _truth(tape, call, true[i], noisy[i]) for i, call in plain.items()}
    outside = _unlike_first(tape, {i: call for i, call in ran.items() if i in opaque})
    ends = time.process_time() + MAX_SECONDS_OUTSIDE
    for i, call in outside.items():
        if time.process_time() > ends:
            found[i] = _untested(call, f"opaque: {call.name} was not measured for want of time")
        else:
            found[i] = _outside(tape, call, MAX_SECONDS / len(outside))
    return found


def _unlike_first(tape: Tape, calls: dict[int, FunctionCall]) -> dict[int, FunctionCall]:
    """Calls with those first that differ in function or shapes: they may go other ways in it."""
    first: dict[Any, int] = {}
    for i, call in calls.items():
        shapes = tuple(tape.layouts[number].shape for number in call.inputs)
        first.setdefault((call.cls, shapes), i)
    return {i: calls[i] for i in (*first.values(), *calls)}


def _truth(
    tape: Tape, call: FunctionCall, exact: Derivative, rounded: Derivative
) -> CustomFunction:
    """Judge one call by its derivatives."""
    file, line = _source(call)
    try:
        gave, true, noisy = _by_input(call), _known(exact), _known(rounded)
    except CannotReplay as reason:
        return _untested(call, str(reason))
    size = norm(true.values())
    errors = [distance(gave.get(i), true[i]) for i in true]
    floors = [distance(noisy.get(i), true[i]) for i in true]
    unit = size or 1.0
    error, floor = math.hypot(*errors) / unit, math.hypot(*floors) / unit
    through = is_straight_through(tape, call)
    if errors:
        line = _line_of(call, list(true)[errors.index(max(errors))]) or line
    library = called_library(call.cls)
    return CustomFunction(
        call.name, file, line, error, floor, straight_through=through, library=library
    )


def _outside(tape: Tape, call: FunctionCall, seconds: float) -> CustomFunction:
    """A function that computes outside torch, judged by values of the function."""
    file, line = _source(call)
    if call.opaque_because is not None:
        return _untested(call, f"opaque at {file}:{line}: {call.opaque_because}")
    gave = {i: gradient for i, gradient in _by_input(call).items() if gradient is not None}
    if not gave:
        return _untested(call, f"opaque at {file}:{line}: its backward gave nothing")
    numbers = list(dict.fromkeys(call.inputs))
    try:
        values = Replay(tape, float64=False, gradients=False).run(numbers, before=call.first)
        found = measured_gradient(tape, call, values, gave, seconds)
    except Exception as error:
        # The function is the program's own and may refuse what it is given.
        return _untested(call, f"opaque at {file}:{line}: {type(error).__name__}: {error}")
    if found is None:
        reason = "differences of its values are too noisy to tell"
        return _untested(call, f"opaque at {file}:{line}: {reason}")
    return CustomFunction(
        call.name,
        file,
        line,
        found.error,
        found.floor,
        part=found.part,
        library=called_library(call.cls),
        # A loss that was recognised is differentiated by a replay.
        outside=not call.recognised,
    )


def _untested(call: FunctionCall, reason: str) -> CustomFunction:
    return CustomFunction(call.name, *_source(call), math.nan, math.nan, untested=reason)


def _by_input(call: FunctionCall) -> dict[int, Tensor | None]:
    """What the backward gave for each input; one that is used twice gets both."""
    found: dict[int, Tensor | None] = {}
    # Gradients are given for tensors only, in the order of the call.
    for number, gradient in zip(call.inputs, call.gave or (), strict=False):
        before = found.get(number)
        if gradient is None or before is None:
            found[number] = before if gradient is None else gradient.double()
        else:
            found[number] = before + gradient.double()
    return found


def _known(found: Derivative) -> dict[int, Tensor]:
    if isinstance(found, CannotReplay):
        raise found
    return found


def _derivatives(
    tape: Tape, calls: Mapping[int, FunctionCall], *, float64: bool
) -> dict[int, Derivative]:
    """The derivative of each call by its inputs, or why there is none.

    The inputs of all of them come from one replay of the step.
    """
    found: dict[int, Derivative] = {}
    by_place: dict[int, list[int]] = {}
    points: dict[int, set[int]] = {}
    for i, call in calls.items():
        by_place.setdefault(call.first, []).append(i)
        points.setdefault(call.first, set()).update(call.inputs, _others(tape, call))

    def look(at: int, values: dict[int, Tensor]) -> None:
        for i in by_place.pop(at):
            found[i] = _attempted(tape, calls[i], values, float64=float64)

    before = Replay(tape, float64=float64, gradients=False)
    # Where an operation cannot be replayed, calls behind it may not need it.
    with suppress(CannotReplay):
        before.at_points(points, look)
    for at, left in by_place.items():
        for i in left:
            try:
                values = before.run(sorted({*calls[i].inputs, *_others(tape, calls[i])}), before=at)
            except CannotReplay as reason:
                found[i] = reason
            else:
                found[i] = _attempted(tape, calls[i], values, float64=float64)
    return found


def _attempted(
    tape: Tape, call: FunctionCall, values: dict[int, Tensor], *, float64: bool
) -> Derivative:
    with neutral(float64=False, gradients=True):
        try:
            return _derivative(tape, call, values, float64=float64)
        except CannotReplay as reason:
            return reason


def _others(tape: Tape, call: FunctionCall) -> set[int]:
    """Tensors that the forward reaches without being given them."""
    segment = tape.operations[call.first : call.last + 1]
    own = {o for operation in segment for o in operation.outputs} | {*call.inputs}
    return {i for op in segment for i in op.inputs if i not in own and i not in tape.leaves}


def _derivative(
    tape: Tape, call: FunctionCall, values: dict[int, Tensor], *, float64: bool
) -> dict[int, Tensor]:
    """The derivative of a call by its inputs, whose values are given with what else it uses."""
    inputs = list(dict.fromkeys(call.inputs))
    replay = Replay(tape, float64=float64, cuts=Cuts.OPENED)
    leaves: dict[int, Tensor] = {}
    with torch.inference_mode(mode=False):
        for number in inputs:
            value = values[number].detach().clone()
            leaves[number] = value.requires_grad_() if value.is_floating_point() else value
    leaves |= {i: values[i] for i in _others(tape, call) if i in values}
    given = call.given or []
    wanted = {
        number: given[position]
        for position, number in call.outputs.items()
        if position < len(given) and given[position] is not None
    }
    if not wanted:
        raise CannotReplay(f"no gradient reached {call.name}")
    outputs = replay.run(list(wanted), before=call.last + 1, since=call.first, leaves=leaves)
    pairs = [
        (outputs[number], seed.to(outputs[number].dtype).reshape(outputs[number].shape))
        for number, seed in wanted.items()
        if seed is not None and outputs[number].requires_grad
    ]
    needed = {i: leaf for i, leaf in leaves.items() if i in inputs and leaf.requires_grad}
    trainable = {i: leaf for i, leaf in needed.items() if _required_grad(tape, call, i)}
    if not pairs or not trainable:
        raise CannotReplay(f"the recorded forward of {call.name} has no derivative")
    found = torch.autograd.grad(
        [o for o, _ in pairs], list(trainable.values()), [s for _, s in pairs], allow_unused=True
    )
    return {
        number: torch.zeros_like(trainable[number]).double()
        if gradient is None
        else gradient.double()
        for number, gradient in zip(trainable, found, strict=True)
    }


def _required_grad(tape: Tape, call: FunctionCall, number: int) -> bool:
    """Whether this input required a gradient, so that the backward gave one."""
    for given, gradient in zip(call.inputs, call.gave or (), strict=False):
        if given == number and gradient is not None:
            return True
    wanted = number in tape.parameters
    for operation in tape.operations[call.first : call.last + 1]:
        if number in operation.inputs:
            return wanted or operation.requires_grad[operation.inputs.index(number)]
    return wanted


def _line_of(call: FunctionCall, number: int) -> int | None:
    """The line of the backward that makes the gradient of one input."""
    code = getattr(getattr(call.cls, "backward", None), "__code__", None)
    places = [i for i, a in enumerate(call.arguments) if type(a) is Ref and a.id == number]
    return line_of_result(code, places[0]) if code is not None and places else None


def _source(call: FunctionCall) -> tuple[str | None, int | None]:
    backward = getattr(call.cls, "backward", None)
    code = getattr(backward, "__code__", None)
    if code is None:
        return None, None
    # The first line of code that it has, not that of its decorators.
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return code.co_filename, min(
        (n for n in lines if n > code.co_firstlineno), default=code.co_firstlineno
    )


PROBE = Probe(CustomFunction, lambda a: custom_functions(a.window))
