"""Custom functions that compute outside torch, in numpy, ctypes or an extension: run once more.

Nothing that torch sees leads from the inputs of such a call to its results, so that a replay could
only take the recorded ones. But the function can be called again (`link_outside` says which ones):
on copies of its inputs and of its other arguments, and with the random states restored. What a
function does to memory of its own, which nobody sees, stays unseen.

Its derivative is that of its own backward, in the recorded types. Whether that is right is measured
elsewhere: a replay through it is no evidence for it.
"""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from lossleuth.tape.deadline import check
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.strides import laid_out
from lossleuth.tape.tape import FunctionCall, Operation, OutsideCall, Ref, Tape
from lossleuth.torch_internals import without_modes

# Arguments that are not copied: they are no data.
CODE = (type, FunctionType, BuiltinFunctionType, ModuleType)

Values = Mapping[int, Tensor]


def calls_to_make(
    tape: Tape,
    operations: Iterable[Operation],
    wanted: Collection[int],
    given: set[int],
    span: tuple[int, int | None],
) -> list[OutsideCall]:
    """The calls that a replay of these operations makes again, in order.

    Those are needed for what is wanted, not given, and within the span of the replay.
    """
    if not tape.outside:
        return []
    since, before = span
    used = tape.with_sources({*wanted, *(i for op in operations for i in op.inputs)})
    needed = {tape.groups[i] for i in used} - {tape.groups[i] for i in given}
    calls = {
        id(again.call): again
        for group, again in tape.outside.items()
        if group in needed
        # In an excerpt, nothing may come before it.
        and (not since or again.at > since)
        and (before is None or again.at <= before)
    }
    return sorted(calls.values(), key=lambda again: again.at)


class Agenda(NamedTuple):
    """What a replay still has to do outside torch, the next thing last."""

    calls: list[OutsideCall]
    # Memory that was filled otherwise, with the operation before which we noticed.
    filled: list[tuple[int, int]]
    # The calls by index: what they did within torch is left out.
    left_out: set[int]


def agenda(tape: Tape, calls: Sequence[OutsideCall]) -> Agenda:
    """The order in which a replay makes these calls and fills memory."""
    results = {tape.groups[i] for again in calls for i in again.call.outputs.values()}
    filled = [(at, i) for i, at in tape.opaque.items() if tape.groups[i] not in results]
    filled.sort(key=lambda item: item[0])
    made = {id(again.call) for again in calls}
    functions = tape.functions if made else ()
    left_out = {index for index, call in enumerate(functions) if id(call) in made}
    return Agenda([*calls][::-1], filled[::-1], left_out)


def as_operation(tape: Tape, again: OutsideCall) -> Operation:
    """A call that is made again as if it were one operation, at the line that makes it."""
    call, results = again.call, _results(again.call)
    return replace(
        tape.operations[again.at - 1],
        inputs=call.inputs,
        outputs=tuple(results),
        several=True,
        written=(),
        place=call.place,
        recorded_results=None,
    )


def run_again(tape: Tape, call: FunctionCall, inputs: Values) -> dict[int, Tensor]:
    """What a call makes of other inputs, in the recorded types; its results by their numbers."""
    check()
    with neutral(float64=False, gradients=False), _as_it_was():
        made = _called(tape, call, inputs)
        return {number: value.detach().clone() for number, value in made.items()}


def gradients_again(
    tape: Tape, call: FunctionCall, inputs: Values, given: Mapping[int, Tensor]
) -> dict[int, Tensor]:
    """What the backward of a call gives for other inputs and these gradients of its results."""
    check()
    with neutral(float64=False, gradients=True), _as_it_was():
        leaves = {
            i: _copied(tape, i, value).requires_grad_()
            for i, value in inputs.items()
            if tape.layouts[i].dtype.is_floating_point
        }
        made = _called(tape, call, inputs, leaves)
        pairs = [
            (made[i], seed.to(made[i].dtype).reshape(made[i].shape))
            for i, seed in given.items()
            if i in made and made[i].requires_grad
        ]
        if not pairs:
            return {}
        results, seeds = zip(*pairs, strict=True)
        found = torch.autograd.grad(results, list(leaves.values()), seeds, allow_unused=True)
    pairs_found = zip(leaves, found, strict=True)
    return {i: gradient.detach() for i, gradient in pairs_found if gradient is not None}


class CallAgain(Function):
    """A call of a program's function as a part of a replay's graph.

    Given numbers of inputs and results, and the inputs; gives the results in their order.
    """

    @staticmethod
    def forward(ctx: Any, tape: Tape, call: FunctionCall, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Make the call."""
        ctx.tape, ctx.call, ctx.types = tape, call, [value.dtype for value in inputs]
        ctx.save_for_backward(*inputs)
        made = run_again(tape, call, dict(zip(_inputs(call), inputs, strict=True)))
        wide = any(dtype is torch.float64 for dtype in ctx.types)
        found = [made[number] for number in _results(call)]
        found = [f.double() if wide and f.is_floating_point() else f for f in found]
        ctx.mark_non_differentiable(*(f for f in found if not f.is_floating_point()))
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> tuple[Any, ...]:
        """Ask the function's own backward."""
        numbers = _inputs(ctx.call)
        inputs = dict(zip(numbers, ctx.saved_tensors, strict=True))
        seeded = zip(_results(ctx.call), given, strict=True)
        seeds = {number: seed for number, seed in seeded if seed is not None}
        found = gradients_again(ctx.tape, ctx.call, inputs, seeds)
        gradients = [found.get(number) for number in numbers]
        widened = [
            None if g is None else g.to(dtype)
            for g, dtype in zip(gradients, ctx.types, strict=True)
        ]
        return (None, None, *widened)


def replayed_call(tape: Tape, call: FunctionCall, inputs: Values) -> dict[int, Tensor]:
    """The results of a call by their numbers, with a graph where the inputs have one."""
    given = [inputs[number] for number in _inputs(call)]
    try:
        made = CallAgain.apply(tape, call, *given)  # type: ignore[no-untyped-call]  # untyped
    except Exception as error:
        # It is the program's own code, and may refuse what it is given.
        reason = f"{call.name} at {call.place} cannot be run again"
        raise CannotReplay(f"opaque: {reason}: {type(error).__name__}: {error}") from error
    return dict(zip(_results(call), made, strict=True))


def _inputs(call: FunctionCall) -> list[int]:
    return list(dict.fromkeys(call.inputs))


def _results(call: FunctionCall) -> list[int]:
    return [call.outputs[position] for position in sorted(call.outputs)]


def _copied(tape: Tape, number: int, value: Tensor) -> Tensor:
    """A copy in the recorded type and layout."""
    layout = tape.layouts[number]
    return laid_out(value.detach().to(layout.dtype), layout).clone()


def _called(
    tape: Tape, call: FunctionCall, inputs: Values, leaves: Values | None = None
) -> dict[int, Tensor]:
    """The function's own results, given these leaves of a graph and copies of other inputs."""

    def decoded(argument: Any) -> Any:
        if type(argument) is Ref:
            leaf = (leaves or {}).get(argument.id)
            return _copied(tape, argument.id, inputs[argument.id]) if leaf is None else leaf
        if isinstance(argument, list | tuple):
            return type(argument)(decoded(item) for item in argument)
        if isinstance(argument, dict):
            return {key: decoded(item) for key, item in argument.items()}
        return argument if isinstance(argument, CODE) else copy.deepcopy(argument)

    with without_modes():
        made = call.cls.apply(*decoded(call.arguments))
    results = made if isinstance(made, list | tuple) else (made,)
    return {number: results[position] for position, number in call.outputs.items()}


@contextlib.contextmanager
def _as_it_was() -> Iterator[None]:
    """Leave the random states of Python and numpy as they were; `neutral` does so for torch."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
