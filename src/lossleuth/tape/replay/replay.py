"""Replay the operations of a tape: in float64, with other leaves, with gradients.

In-place operations are carried out on a fresh copy of the memory, with all its views rebuilt, so
that what autograd has saved stays intact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import is_fused_attention, is_random, is_view
from lossleuth.tape.replay.clean_state import neutral
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.liveness import endings
from lossleuth.tape.replay.no_dropout import without_dropout
from lossleuth.tape.replay.opacity import blocked_by
from lossleuth.tape.replay.outside import as_operation, calls_to_make, replayed_call
from lossleuth.tape.replay.strides import laid_out
from lossleuth.tape.replay.substitutes import (
    attention,
    functional,
    gathered,
    half_to_float,
    named_arguments,
)
from lossleuth.tape.tape import Operation, OutsideCall, Ref, Tape
from lossleuth.torch_internals import map_only

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
CHOICES = ("topk", "sort", "max", "min", "kthvalue", "median")

# Called with an operation, its arguments, its result, and a way to the result in recorded types.
Each = Callable[[Operation, tuple[Any, ...], Any, Callable[[], Any]], None]


class Cuts(Enum):
    """What to do where the program cuts off a gradient, as by `detach`."""

    KEPT = "kept"
    OPENED = "opened"


@dataclass
class Replay:
    """How to replay operations.

    With `float64`, all floating-point tensors are float64; else they keep the recorded types.
    With `replay_choices`, choices such as `topk` and `argmax` are those of the recording.
    """

    tape: Tape
    float64: bool = True
    cuts: Cuts = Cuts.KEPT
    gradients: bool = True
    replay_choices: bool = True
    # Without `dropout`, nothing is dropped, as in evaluation mode.
    dropout: bool = True
    # Operations that do not support float64 and ran in the recorded types.
    narrow: list[Operation] = field(default_factory=list)
    # Whether the replay met one of the program's cuts.
    has_cuts: bool = False

    def run(
        self,
        wanted: Sequence[int],
        *,
        before: int | None = None,
        since: int = 0,
        leaves: Mapping[int, Tensor] | None = None,
        inputs: Mapping[int, Callable[[int, Tensor], Tensor]] | None = None,
        kept: Collection[int] = (),
        each: Each | None = None,
    ) -> dict[int, Tensor]:
        """Replay what the tensors `wanted`, and `kept` on the way, depend on, and return them.

        `leaves` gives values: of leaves, or of tensors made before `since`. `inputs` changes a
        tensor where an operation uses it: a function of the operation's number and the tensor.
        `each` is called after every operation: its arguments, its result, and a way to the result
        in the recorded types.
        """
        operations = self.tape.needed_for([*wanted, *kept], before, since)
        if inputs and (reason := blocked_by(self.tape, inputs, operations)) is not None:
            raise CannotReplay(reason)
        with neutral(float64=self.float64, gradients=self.gradients):
            pass_ = _Pass(
                replay=self,
                leaves=leaves or {},
                inputs=inputs or {},
                operations=operations,
                wanted={*wanted, *kept},
                span=(since, before),
                each=each,
            )
            for operation in operations:
                try:
                    pass_.do(operation)
                except CannotReplay:
                    raise
                except Exception as error:
                    where = f"{operation.name} at {operation.place}"
                    raise CannotReplay(f"{where}: {type(error).__name__}: {error}") from error
            pass_.catch_up(before)
            return {i: pass_.value_of(i) for i in {*wanted, *kept} if pass_.has(i)}

    def leaf(self, tensor: Tensor) -> Tensor:
        """The tensor as a leaf of the replay's own graph."""
        found = self.widened(tensor.detach())
        # Tensors from inference mode cannot be differentiated.
        return (found.clone() if found.is_inference() else found).requires_grad_()

    def widened(self, tensor: Tensor) -> Tensor:
        """The tensor in the type that this replay uses."""
        return tensor.double() if self.float64 and tensor.dtype in FLOATS else tensor


class _Pass:
    """One replay: the value that each tensor has by now."""

    def __init__(
        self,
        replay: Replay,
        leaves: Mapping[int, Tensor],
        inputs: Mapping[int, Callable[[int, Tensor], Tensor]],
        operations: Sequence[Operation],
        wanted: set[int],
        span: tuple[int, int | None],
        each: Each | None,
    ) -> None:
        self._replay, self._tape = replay, replay.tape
        self._each = each
        self._leaves, self._inputs = leaves, inputs
        self._values: dict[int, Tensor] = {}
        self._parents: dict[int, int] = {}
        self._views: dict[int, list[tuple[int, Operation, int]]] = {}
        self._written = {self._tape.groups[i] for op in operations for i in op.written}
        self._ending = endings(self._tape, operations, wanted)
        self._members: dict[int, list[int]] = {}
        # Calls that are made again, and their indices: what they did within torch is left out.
        self._outside = calls_to_make(self._tape, operations, wanted, {*leaves}, span)
        again = {id(a.call) for a in self._outside}
        functions = self._tape.functions if again else ()
        self._left_out = {index for index, call in enumerate(functions) if id(call) in again}
        # Memory that was filled outside torch otherwise, and the operation before which we noticed.
        groups = self._tape.groups
        results = {groups[i] for a in self._outside for i in a.call.outputs.values()}
        self._opaque = {i: at for i, at in self._tape.opaque.items() if groups[i] not in results}

    # values

    def has(self, number: int) -> bool:
        return number in self._values or number in self._tape.leaves

    def value_of(self, number: int) -> Tensor:
        if (found := self._values.get(number)) is not None:
            return found
        tape = self._tape
        if number in self._leaves:
            value = self._leaves[number]
        elif number in tape.copies:
            value = self.value_of(tape.copies[number]).reshape(tape.layouts[number].shape)
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

    def _set(self, number: int, value: Tensor) -> None:
        self._values[number] = value
        self._members.setdefault(self._tape.groups[number], []).append(number)

    def _decoded(self, value: Any, operation: Operation) -> Any:
        if type(value) is Ref:
            tensor = self.value_of(value.id)
            change = self._inputs.get(value.id)
            tensor = tensor if change is None else change(operation.number, tensor)
            return self._cut(value.id, tensor, operation)
        if isinstance(value, list | tuple):
            return type(value)(self._decoded(item, operation) for item in value)
        if isinstance(value, torch.dtype) and self._replay.float64 and value in FLOATS:
            return torch.float64
        return value

    def _cut(self, number: int, tensor: Tensor, operation: Operation) -> Tensor:
        """Detach a tensor where the program had detached it."""
        replay = self._replay
        if not replay.gradients or replay.cuts is Cuts.OPENED or operation.function is not None:
            return tensor
        required = operation.requires_grad[operation.inputs.index(number)]
        if required or not tensor.requires_grad:
            return tensor
        replay.has_cuts = True
        return tensor.detach()

    # calls outside torch

    def _call_outside(self, again: OutsideCall) -> None:
        """Make a call again; what it did within torch is left out."""
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

    def catch_up(self, before: int | None) -> None:
        """What was done outside torch before an operation, or at all."""
        while self._outside and (before is None or self._outside[0].at <= before):
            self._call_outside(self._outside.pop(0))
        for number in [i for i, at in self._opaque.items() if before is None or at <= before]:
            del self._opaque[number]
            self._refill(number)

    def do(self, operation: Operation) -> None:
        self.catch_up(operation.number)
        if operation.function in self._left_out:
            return
        for number in operation.written:
            self._make_writable(number)
        args = self._decoded(operation.args, operation)
        kwargs = {k: self._decoded(v, operation) for k, v in operation.kwargs.items()}
        before = args
        if self._each is not None and operation.written:
            # What is written in place is not there any more afterwards.
            before = map_only(Tensor, Tensor.clone, args)
        result = self._result(operation, args, kwargs)
        if self._each is not None:
            self._each(
                operation, before, result, lambda: self._as_recorded(operation, before, kwargs)
            )
        results = tuple(result) if operation.several else (result,)
        for index, (made, value) in enumerate(zip(operation.outputs, results, strict=False)):
            if made is not None and isinstance(value, Tensor):
                self._put(operation, index, made, value)
        for group in self._ending.get(operation.number, ()):
            for number in self._members.pop(group, ()):
                self._values.pop(number, None)
                self._views.pop(number, None)

    def _put(self, operation: Operation, index: int, number: int, value: Tensor) -> None:
        # An operation that returns its own input makes no new tensor and no view.
        if number in operation.written or number in operation.inputs:
            return
        if is_view(operation.kind) and operation.inputs:
            parent = operation.inputs[0]
            self._parents[number] = parent
            self._views.setdefault(parent, []).append((number, operation, index))
        else:
            value = laid_out(value, self._tape.layouts[number])
        self._set(number, value)

    def _refill(self, number: int) -> None:
        """Fill memory with what was written to it outside torch."""
        if number in self._values:
            tape, source = self._tape, self._tape.copies.get(number)
            refilled = self._replay.widened(tape.snapshots[number])
            if source is not None:
                refilled = self.value_of(source).reshape(tape.layouts[number].shape)
            self._values[number] = refilled
            self._renew_views(number)

    def _make_writable(self, number: int) -> None:
        root = number
        self.value_of(root)
        while root in self._parents:
            root = self._parents[root]
        self._values[root] = self.value_of(root).clone()
        self._renew_views(root)

    def _renew_views(self, root: int) -> None:
        waiting = [root]
        while waiting:
            parent = waiting.pop()
            for child, operation, index in self._views.get(parent, ()):
                if child in self._values:
                    self._values[child] = self._view_again(operation, index, parent)
                    waiting.append(child)

    def _view_again(self, operation: Operation, index: int, parent: int) -> Tensor:
        if operation.name == "detach":
            return self._values[parent].view_as(self._values[parent])
        args = self._decoded(operation.args, operation)
        made = operation.kind(*args, **operation.kwargs)
        return made[index] if operation.several else made  # type: ignore[no-any-return]  # a tensor

    def _result(self, operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name, recorded = operation.name, operation.recorded_results
        if name == "detach":
            return aten.alias(args[0])
        if name == "_local_scalar_dense":
            return recorded[0] if recorded else None
        if recorded is not None and is_random(operation.kind):
            return self._random(operation, args, kwargs)
        if recorded is not None and self._replay.replay_choices:
            chosen = self._chosen(operation, args, kwargs)
            if chosen is not None:
                return chosen
        if is_fused_attention(operation.kind):
            return self._attention(operation, args, kwargs)
        if operation.written and "out" in kwargs and self._replay.gradients:
            return self._into(operation, args, kwargs)
        try:
            return operation.kind(*half_to_float(operation.kind, args), **kwargs)
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
        def narrowed(recorded: Any, value: Any) -> Any:
            if type(recorded) is Ref:
                there = self._tape.layouts[recorded.id].dtype
                return value.to(there) if value.dtype == torch.float64 else value
            if isinstance(recorded, list | tuple):
                pairs = zip(recorded, value, strict=True)
                return type(recorded)(narrowed(r, v) for r, v in pairs)
            return recorded if isinstance(recorded, torch.dtype) else value

        names = operation.kwargs
        result = operation.kind(
            *narrowed(operation.args, args), **{k: narrowed(names[k], v) for k, v in kwargs.items()}
        )
        if isinstance(result, list | tuple):
            return tuple(self._replay.widened(r) if isinstance(r, Tensor) else r for r in result)
        return self._replay.widened(result) if isinstance(result, Tensor) else result
