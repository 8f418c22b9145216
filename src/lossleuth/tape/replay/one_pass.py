"""One replay of some operations: the value that each tensor has by now.

In-place operations are carried out on a fresh copy of the memory, with its views made again, so
that what autograd has saved stays intact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Protocol

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import PLAIN_TYPES
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.liveness import Plan
from lossleuth.tape.replay.no_dropout import without_dropout
from lossleuth.tape.replay.outside import agenda, as_operation, calls_to_make, replayed_call
from lossleuth.tape.replay.recorded_types import done_as_recorded
from lossleuth.tape.replay.rewritten_leaf import with_value
from lossleuth.tape.replay.strides import laid_out
from lossleuth.tape.replay.substitutes import (
    attention,
    functional,
    gathered,
    half_to_float,
    named_arguments,
)
from lossleuth.tape.tape import Operation, OutsideCall, Ref, Tape
from lossleuth.tape.walk_back import origin
from lossleuth.torch_internals import map_only

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
CHOICES = ("topk", "sort", "max", "min", "kthvalue", "median")
# Operations that a replay does in another way; see `_result`.
DONE_OTHERWISE = frozenset(("detach", "_local_scalar_dense", "_softmax", "_log_softmax"))
# Stands for how a tensor is made that is no view.
NO_RECIPE = (None,)
# Arguments of these types are taken as they are; a type of numbers may become a wider one.
PLAIN = PLAIN_TYPES - {torch.dtype}

# Called with an operation, its arguments, its result, and a way to the result in recorded types.
Each = Callable[[Operation, tuple[Any, ...], Any, Callable[[], Any]], None]


class Cuts(Enum):
    """What to do where the program cuts off a gradient, as by `detach`."""

    KEPT = "kept"
    OPENED = "opened"


class Manner(Protocol):
    """How operations are replayed; see `Replay`."""

    tape: Tape
    float64: bool
    cuts: Cuts
    gradients: bool
    replay_choices: bool
    dropout: bool
    narrow: list[Operation]
    has_cuts: bool

    def widened(self, tensor: Tensor) -> Tensor:
        """The tensor in the type that this replay uses."""


class Pass:
    """One replay: the value that each tensor has by now."""

    def __init__(
        self,
        replay: Manner,
        leaves: Mapping[int, Tensor],
        inputs: Mapping[int, Callable[[int, Tensor], Tensor]],
        plan: Plan,
        each: Each | None,
    ) -> None:
        self._replay, self._tape = replay, replay.tape
        self._each = each
        self._leaves, self._inputs = leaves, inputs
        self._values: dict[int, Tensor] = {}
        # How each view is made: of which tensor, by which operation, which of its results.
        self._recipes: dict[int, tuple[int, Operation, int]] = {}
        # The views of each tensor that are up to date; others are made again when they are used.
        self._views: dict[int, list[int]] = {}
        # Memory that was copied for this replay and may be written to.
        self._owned: set[int] = set()
        self._written, self._ending = plan.written, plan.endings
        self._members: dict[int, list[int]] = {}
        calls = calls_to_make(self._tape, plan.operations, plan.wanted, {*leaves}, plan.span)
        self._outside = agenda(self._tape, calls)

    # values

    def has(self, number: int) -> bool:
        """Whether a tensor has a value."""
        known = number in self._values or number in self._recipes
        return known or number in self._tape.leaves

    def value_of(self, number: int) -> Tensor:
        """The value that a tensor has by now."""
        if (found := self._values.get(number)) is not None:
            return found
        if number in self._recipes:
            return self._view_again(number)
        tape = self._tape
        if number in self._leaves:
            value = self._leaves[number]
        elif number in tape.copies:
            value = self._copied(number)
        elif number in tape.opaque:
            value = self._replay.widened(tape.snapshots[number].detach())
        elif number in tape.leaves:
            value = self._replay.widened(tape.value(number).detach())
        else:
            raise CannotReplay(f"tensor {number} was not recorded")
        if tape.groups[number] in self._written:
            value = value.clone()
        self._set(number, value)
        return value

    def _copied(self, number: int) -> Tensor:
        """The value of a copy made outside torch: what its source has now."""
        source = self._tape.copies[number]
        value = self.value_of(source).reshape(self._tape.layouts[number].shape)
        return value.clone() if self._tape.groups[source] in self._written else value

    def _set(self, number: int, value: Tensor) -> None:
        self._values[number] = value
        self._members.setdefault(self._tape.groups[number], []).append(number)

    def _decoded(self, value: Any, operation: Operation) -> Any:
        kind = type(value)
        if kind is Ref:
            number = value.id
            tensor = self._values.get(number)
            tensor = self.value_of(number) if tensor is None else tensor
            if self._inputs and number in self._inputs:
                tensor = self._inputs[number](operation.number, tensor)
            return self._cut(number, tensor, operation) if self._replay.gradients else tensor
        if kind in PLAIN:
            return value
        if kind is list or kind is tuple or isinstance(value, list | tuple):
            for item in value:
                if type(item) not in PLAIN:
                    return kind([self._decoded(item, operation) for item in value])
            return value
        if isinstance(value, torch.dtype) and self._replay.float64 and value in FLOATS:
            return torch.float64
        return value

    def _cut(self, number: int, tensor: Tensor, operation: Operation) -> Tensor:
        """Detach a tensor where the program had detached it."""
        replay = self._replay
        if replay.cuts is Cuts.OPENED or operation.function is not None:
            return tensor
        required = operation.requires_grad[operation.inputs.index(number)]
        if required or not tensor.requires_grad:
            return tensor
        replay.has_cuts = True
        return tensor.detach()

    # calls outside torch

    def catch_up(self, before: int | None) -> None:
        """What was done outside torch before an operation, or at all."""
        try:
            self._catch_up(before)
        except CannotReplay:
            raise
        except Exception as error:
            raise CannotReplay(f"outside torch: {type(error).__name__}: {error}") from error

    def _catch_up(self, before: int | None) -> None:
        calls, filled = self._outside.calls, self._outside.filled
        while calls and (before is None or calls[-1].at <= before):
            self._call_outside(calls.pop())
        while filled and (before is None or filled[-1][0] <= before):
            self._refill(filled.pop()[1])

    def _call_outside(self, again: OutsideCall) -> None:
        call, at = again
        inputs = {number: self.value_of(number) for number in call.inputs}
        made = replayed_call(self._tape, call, inputs)
        for number, value in made.items():
            self._set(number, laid_out(value, self._tape.layouts[number]))
        if self._replay.float64:
            self._replay.narrow.append(self._tape.operations[at - 1])
        if self._each is not None:
            results = tuple(made.values())
            self._each(as_operation(self._tape, again), tuple(inputs.values()), results, made.copy)

    # operations

    def attempt(self, operation: Operation) -> None:
        """Do an operation; whatever goes wrong is a reason that can be told."""
        try:
            self._do(operation)
        except CannotReplay:
            raise
        except Exception as error:
            where = f"{operation.name} at {operation.place}"
            raise CannotReplay(f"{where}: {type(error).__name__}: {error}") from error

    def free(self, groups: Iterable[int]) -> None:
        """Forget tensors that are not needed any more."""
        for group in groups:
            for number in self._members.pop(group, ()):
                self._values.pop(number, None)
                self._views.pop(number, None)
                self._recipes.pop(number, None)

    def _do(self, operation: Operation) -> None:
        self._catch_up(operation.number)
        if operation.function in self._outside.left_out:
            return
        for number in operation.written:
            self._make_writable(number)
        args = tuple([self._decoded(value, operation) for value in operation.args])
        kwargs: dict[str, Any] = {}
        if operation.kwargs:
            kwargs = {k: self._decoded(v, operation) for k, v in operation.kwargs.items()}
        before = args
        if self._each is not None and operation.written:
            # What is written in place is not there any more afterwards.
            before = map_only(Tensor, Tensor.clone, args)
        result = self._result(operation, args, kwargs)
        for number in operation.written:
            self._keep_leaf(number)
        if self._each is not None:
            self._each(
                operation, before, result, lambda: self._as_recorded(operation, before, kwargs)
            )
        results = tuple(result) if operation.several else (result,)
        for index, (made, value) in enumerate(zip(operation.outputs, results, strict=False)):
            if made is not None and isinstance(value, Tensor):
                self._put(operation, index, made, value)
        if operation.number in self._ending:
            self.free(self._ending[operation.number])

    def _put(self, operation: Operation, index: int, number: int, value: Tensor) -> None:
        # An operation that returns its own input makes no new tensor and no view.
        if number in operation.written or number in operation.inputs:
            return
        if operation.traits.is_view and operation.inputs:
            parent = operation.inputs[0]
            self._recipes[number] = (parent, operation, index)
            self._views.setdefault(parent, []).append(number)
        else:
            value = laid_out(value, self._tape.layouts[number])
        self._set(number, value)

    def _refill(self, number: int) -> None:
        """Fill memory with what was written to it outside torch."""
        if number in self._values or number in self._recipes:
            is_copy = number in self._tape.copies
            refilled = self._replay.widened(self._tape.snapshots[number])
            self._values[number] = self._copied(number) if is_copy else refilled
            self._drop_views(number)

    def _make_writable(self, number: int) -> None:
        """Let an operation write to memory that nobody else needs as it is.

        Autograd may need it as it was before every write; without gradients one copy is enough.
        """
        self.value_of(number)
        root = self._root_of(number)
        if root in self._owned and not self._replay.gradients:
            return
        self._values[root] = self.value_of(root).clone()
        self._owned.add(root)
        self._drop_views(root)

    def _keep_leaf(self, number: int) -> None:
        """A parameter that is written to has another value, and is the same leaf of the graph.

        Autograd lets nobody write to one but behind its back, as loading a checkpoint does.
        """
        root = self._root_of(number)
        leaf = self._leaves.get(root)
        if leaf is not None and leaf.requires_grad and root in self._tape.parameters:
            self._values[root] = with_value(leaf, self._values[root].detach())
            self._drop_views(root)

    def _root_of(self, number: int) -> int:
        return origin(number, lambda view: self._recipes.get(view, NO_RECIPE)[0])

    def _drop_views(self, root: int) -> None:
        """The views of a tensor look at other memory than it from now on."""
        waiting = [root]
        while waiting:
            for child in self._views.pop(waiting.pop(), ()):
                self._values.pop(child, None)
                waiting.append(child)

    def _view_again(self, number: int) -> Tensor:
        parent, operation, index = self._recipes[number]
        if operation.name == "detach":
            made = self.value_of(parent)
            made = made.view_as(made)
        else:
            args = self._decoded(operation.args, operation)
            made = operation.kind(*args, **operation.kwargs)
            made = made[index] if operation.several else made
        self._values[number] = made
        self._views.setdefault(parent, []).append(number)
        return made

    def _result(self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name, recorded, traits = operation.name, operation.recorded_results, operation.traits
        is_plain = recorded is None and not operation.written and name not in DONE_OTHERWISE
        if is_plain and not traits.is_fused_attention:
            return self._plain(operation, args, kwargs)
        if name == "detach":
            return aten.alias(args[0])
        if name == "_local_scalar_dense":
            return recorded[0] if recorded else None
        if recorded is not None and traits.is_random:
            return self._random(operation, args, kwargs)
        if recorded is not None and self._replay.replay_choices:
            chosen = self._chosen(operation, args, kwargs)
            if chosen is not None:
                return chosen
        if traits.is_fused_attention:
            return self._attention(operation, args, kwargs)
        if operation.written and "out" in kwargs and self._replay.gradients:
            return self._into(operation, args, kwargs)
        if name in DONE_OTHERWISE:
            args = half_to_float(operation.kind, args)
        return self._plain(operation, args, kwargs)

    def _plain(self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return operation.kind(*args, **kwargs)
        except (RuntimeError, NotImplementedError, TypeError):
            if not self._replay.float64:
                raise
            self._replay.narrow.append(operation)
            return self._as_recorded(operation, args, kwargs)

    def _attention(
        self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        given = named_arguments(operation.kind, args, kwargs)
        if not self._replay.float64 and not given.get("dropout_p"):
            # The kernel itself: its rounding is part of the rounding floor.
            return operation.kind(*args, **kwargs)
        return (attention(given), *([None] * (len(operation.outputs) - 1)))

    def _random(self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recorded = operation.recorded_results
        assert recorded is not None
        if not self._replay.dropout:
            written = self._values[operation.written[0]] if operation.written else None
            whole = without_dropout(operation, args, kwargs, written)
            if whole is not None:
                return whole
        if operation.name == "native_dropout":
            mask, share = recorded[1], args[1]
            scale = 0.0 if share >= 1 else 1 / (1 - share)
            return args[0] * (mask.to(args[0].dtype) * scale), mask
        drawn = tuple(self._replay.widened(k) if isinstance(k, Tensor) else k for k in recorded)
        if operation.written:
            target = self._values[operation.written[0]]
            return target.copy_(drawn[0].to(target.dtype))
        return drawn if operation.several else drawn[0].clone()

    def _chosen(self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Choices as recorded; the chosen values are taken from the replay."""
        recorded = operation.recorded_results
        assert recorded is not None
        if operation.written:
            target = self._values[operation.written[0]]
            return target.copy_(recorded[0]) if recorded[0] is not None else None
        if not operation.several:
            return recorded[0].clone()
        if operation.name in CHOICES and recorded[0] is None and recorded[1] is not None:
            given = named_arguments(operation.kind, args, kwargs)
            return gathered(given, recorded[1]), recorded[1]
        return None

    def _into(self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`f(..., out=y)` has no derivative; `y.copy_(f(...))` has."""
        plain = functional(operation.kind)
        if plain is None:
            return operation.kind(*args, **kwargs)
        out = kwargs.pop("out")
        return out.copy_(plain(*args, **kwargs))

    def _as_recorded(
        self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return done_as_recorded(self._tape, operation, args, kwargs, self._replay.widened)
