"""Recording the operations of a running program.

The program does what it would do anyway; every operation passes through here on its way. Traps
that this code avoids: a tensor's `id` and its memory's address are both used again, so tensors are
known by weak reference; backward passes are not recorded, but what they overwrite is saved first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.capture.compiler_marks import never_compile
from lossleuth.tape.capture.memory import READ, kept_results, memory_of, seen_alike, written_tensors
from lossleuth.tape.capture.own_work import OwnWork
from lossleuth.tape.capture.source_frames import custom_function, in_own_optimizer, place_of
from lossleuth.tape.op_schemas import EMPTY, PLAIN_TYPES, Traits, tensors_in, traits_of
from lossleuth.tape.tape import FunctionCall, Layout, Operation, Read, Ref, Tape
from lossleuth.torch_internals import (
    OpOverload,
    TorchDispatchMode,
    forward_class,
    gradient_hooks,
    plain_dispatch,
)

aten = torch.ops.aten
# Whole numbers are cheap to copy, and programs fill buffers with them behind torch's back.
COPIED_BYTES = 1 << 22
# Tensors that are remembered for each piece of memory.
MOST_NAMES = 8


class Capture(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped base
    """A dispatch mode that writes a tape of what the program does, and not of our `own` work."""

    def __init__(self, own: OwnWork | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped base
        self.modules: list[str] = []
        self.own = own or OwnWork()
        self._paused = 0
        self._call: tuple[FrameType | None, int] = (None, -1)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what was recorded: whatever is used from now on was there before."""
        self.tape = Tape()
        self._known: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        # The latest known tensors in each piece of memory.
        self._memory: dict[int | None, list[tuple[weakref.ref[Tensor], int]]] = {}
        self._leaves_in: dict[int, list[int]] = {}
        self._unwritten: set[int] = set()
        self._overwritten: set[int] = set()
        self._attributed: set[int] = set()
        # The call that each node of the graph came from.
        self.calls: dict[Any, FunctionCall] = {}

    # pausing

    def pause(self) -> None:
        """Stop recording, for a backward pass or an update; leaves are still saved."""
        self._paused += 1

    def resume(self) -> None:
        """Go on; what was overwritten meanwhile is met as something new."""
        self._paused -= 1
        if not self._paused and self._overwritten:
            groups = self.tape.groups
            gone = [k for k, (_, i) in self._known.items() if groups[i] in self._overwritten]
            for key in gone:
                del self._known[key]
            for memory, there in list(self._memory.items()):
                kept = [pair for pair in there if groups[pair[1]] not in self._overwritten]
                self._memory[memory] = kept
            self._overwritten = set()

    # identity

    def known(self, tensor: Tensor) -> int | None:
        """The number of a tensor, if it was seen."""
        found = self._known.get(id(tensor))
        return found[1] if found is not None and found[0]() is tensor else None

    def tensor(self, number: int) -> Tensor | None:
        """The tensor of a number, if it is still there."""
        references = (reference for reference, i in self._known.values() if i == number)
        return next((reference() for reference in references), None)

    def number_of(self, tensor: Tensor) -> int:
        """The number of a tensor; one that nothing made is a leaf from now on."""
        found = self.known(tensor)
        if found is not None and not self._was_moved(tensor, found):
            return found
        twin = self._twin(tensor)
        if twin is not None:
            return self._alias(tensor, twin)
        number = self._enter(tensor, self._owner(tensor))
        self.tape.leaves[number] = tensor
        self.tape.contents[number] = self._quietly(tensor.detach)
        group = self.tape.groups[number]
        self._leaves_in.setdefault(group, []).append(number)
        if not tensor.is_floating_point() and tensor.numel() * tensor.element_size() < COPIED_BYTES:
            self.tape.snapshots[number] = self._quietly(tensor.detach().clone)
        return number

    def _was_moved(self, tensor: Tensor, number: int) -> bool:
        """Whether a leaf was given other memory, which no operation tells."""
        content = self.tape.contents.get(number)
        return content is not None and memory_of(content) != memory_of(tensor)

    def _quietly(self, make: Callable[[], Tensor]) -> Tensor:
        # A copy that was made in inference mode could not be differentiated with later.
        with self.own.work(), torch.inference_mode(mode=False):
            return make()

    def _enter(self, tensor: Tensor, parent: int | None) -> int:
        tape, number = self.tape, len(self.tape.layouts)
        reference = weakref.ref(tensor)
        self._known[id(tensor)] = (reference, number)
        strided = tensor.layout is torch.strided
        stride = tuple(tensor.stride()) if strided else None
        tape.layouts[number] = Layout(tensor.dtype, tuple(tensor.shape), stride)
        tape.groups[number] = number if parent is None else tape.groups[parent]
        memory = memory_of(tensor)
        if memory is not None:
            there = self._memory.setdefault(memory, [])
            there.append((reference, number))
            if len(there) > MOST_NAMES + 1:
                # The first is what the others are views of.
                del there[1:-MOST_NAMES]
        return number

    def _owner(self, tensor: Tensor) -> int | None:
        """A known tensor that is still there and holds the same memory."""
        memory = memory_of(tensor)
        for reference, number in reversed(self._memory.get(memory, ())):
            other = reference()
            if other is not None and memory_of(other) == memory:
                return number
        return None

    def _twin(self, tensor: Tensor) -> int | None:
        """A known tensor that is the same memory seen in the same way."""
        memory = memory_of(tensor)
        for reference, number in reversed(self._memory.get(memory, ())):
            other = reference()
            if other is not None and memory_of(other) == memory and seen_alike(other, tensor):
                return number
        return None

    def _alias(self, tensor: Tensor, twin: int) -> int:
        """The same memory under another name, as `.data` gives it, without any operation."""
        number = self._enter(tensor, twin)
        place, _ = place_of()
        self.tape.operations.append(
            Operation(
                number=len(self.tape.operations),
                kind=aten.alias.default,
                args=(Ref(twin),),
                kwargs={},
                inputs=(twin,),
                requires_grad=(False,),
                outputs=(number,),
                several=False,
                written=(),
                place=place,
                module=self.modules[-1] if self.modules else None,
                function=None,
            )
        )
        return number

    # operations

    @never_compile
    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record an operation and carry it out."""
        kwargs = kwargs or {}
        if self.own.depth:
            return func(*args, **kwargs)
        traits = traits_of(func)
        writes = written_tensors(func, args, kwargs) if traits.written else []
        if self._paused:
            for tensor in writes:
                self._note_write(tensor)
            return func(*args, **kwargs)
        if torch.is_inference_mode_enabled():
            # Without autograd to take them apart, operations come here as they were called.
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        inputs = [*tensors_in(args), *tensors_in(kwargs)]
        numbers = tuple([self.number_of(tensor) for tensor in inputs])
        requires_grad = tuple([tensor.requires_grad for tensor in inputs])
        self.tape.asked.update([n for n, asks in zip(numbers, requires_grad, strict=True) if asks])
        for tensor, number in zip(inputs, numbers, strict=True):
            self._note_input(traits, tensor, number, writes)
        for tensor in writes:
            self._save_before_write(tensor)
        known = {id(tensor): number for tensor, number in zip(inputs, numbers, strict=True)}
        encoded = tuple([_encoded(value, known) for value in args])
        named = {name: _encoded(value, known) for name, value in kwargs.items()} if kwargs else {}
        function, (place, by_user) = self._function_call(), place_of()
        out = func(*args, **kwargs)
        several = isinstance(out, list | tuple)
        results = tuple(out) if several else (out,)
        operation = Operation(
            number=-1,
            kind=func,
            args=encoded,
            kwargs=named,
            inputs=numbers,
            requires_grad=requires_grad,
            outputs=tuple([self._output(traits, t, numbers) for t in results]),
            several=several,
            written=tuple([self.number_of(tensor) for tensor in writes]),
            place=place,
            module=self.modules[-1] if self.modules else None,
            function=function,
            recorded_results=kept_results(func, inputs, results),
        )
        # Last: a tensor that is met under another name is an operation of its own before this one.
        operation.number = len(self.tape.operations)
        self.tape.operations.append(operation)
        self._note_memory(operation, out)
        if func is READ:
            self.tape.reads.append(Read(numbers[0], out, place, by_user, operation.number))
        return out

    def _note_write(self, tensor: Tensor) -> None:
        """Something is written to while nothing is recorded."""
        self._save_before_write(tensor)
        owner = self.known(tensor)
        owner = self._owner(tensor) if owner is None else owner
        if owner is not None:
            self._overwritten.add(self.tape.groups[owner])
            self._note_writer(self.tape.groups[owner])

    def _note_input(
        self, traits: Traits, tensor: Tensor, number: int, writes: list[Tensor]
    ) -> None:
        if self.tape.functions:
            self.note_function_output(tensor, number)
        self.note_hooks(tensor, number)
        if self._unwritten and not traits.is_view:
            self._meet_unwritten(tensor, number, writes)

    def _note_memory(self, operation: Operation, out: Any) -> None:
        """Remember memory that nobody has written to yet."""
        if operation.written and self._unwritten:
            self._unwritten.difference_update(self.tape.groups[i] for i in operation.written)
        made = operation.outputs[0] if operation.outputs else None
        if operation.name in EMPTY and made is not None and out.numel():
            self._unwritten.add(self.tape.groups[made])

    def _output(self, traits: Traits, tensor: Any, inputs: tuple[int, ...]) -> int | None:
        if not isinstance(tensor, Tensor):
            return None
        found = self.known(tensor)
        if found is not None:
            return found
        return self._enter(tensor, inputs[0] if inputs and traits.is_view else None)

    def _save_before_write(self, tensor: Tensor) -> None:
        owner = self.known(tensor)
        owner = self._owner(tensor) if owner is None else owner
        if owner is None:
            return
        for leaf in self._leaves_in.get(self.tape.groups[owner], ()):
            if leaf not in self.tape.snapshots:
                self.tape.snapshots[leaf] = self._quietly(self.tape.contents[leaf].clone)

    def _note_writer(self, group: int) -> None:
        """Remember the line of the user's that writes to a parameter."""
        leaf = self.tape.leaves.get(group)
        if leaf is not None and leaf.requires_grad and leaf.is_floating_point():
            place, by_user = place_of()
            if place is not None and by_user and not in_own_optimizer():
                self.tape.writers.setdefault(place)

    def _meet_unwritten(self, tensor: Tensor, number: int, writes: list[Tensor]) -> None:
        """Memory that is read before torch has written it was filled by somebody else."""
        group = self.tape.groups[number]
        if group in self._unwritten and not any(tensor is other for other in writes):
            self._unwritten.discard(group)
            # The whole memory, where it is still there: other views of it will be used too.
            names = self._memory.get(memory_of(tensor), ())
            whole = next((r() for r, i in names if i == group), None)
            if whole is not None:
                tensor, number = whole, group
            self.tape.opaque[number] = len(self.tape.operations)
            self.tape.snapshots[number] = self._quietly(tensor.detach().clone)

    # custom functions

    def _function_call(self) -> int | None:
        frame = custom_function()
        if frame is None:
            self._call = (None, -1)
            return None
        calls = self.tape.functions
        if self._call[0] is not frame:
            arguments = tuple(frame.f_locals.get("args", ()))
            cls = frame.f_locals.get("cls")
            given = list(tensors_in(arguments))
            inputs = tuple(self.number_of(t) for t in given)
            place, _ = place_of(frame)
            name = getattr(cls, "__name__", "?")
            first = len(self.tape.operations)
            known = {id(tensor): number for tensor, number in zip(given, inputs, strict=True)}
            encoded = _encoded(arguments, known)
            calls.append(FunctionCall(name, place, cls, encoded, inputs, first))
            self._call = (frame, len(calls) - 1)
        call = calls[self._call[1]]
        call.last = len(self.tape.operations)
        return self._call[1]

    def note_function_output(self, tensor: Tensor, number: int) -> None:
        """Find out whether a custom function returned this tensor."""
        if number in self._attributed or not self.tape.functions:
            return
        node = tensor.grad_fn
        if node is None:  # inside the function it has none yet
            return
        self._attributed.add(number)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            own = self.calls.get(node) or self._maker(node, number)
            if own is not None:
                own.outputs.setdefault(tensor.output_nr, number)
                self.calls[node] = own

    def _maker(self, node: Any, number: int) -> FunctionCall | None:
        """The call that a result is of."""
        cls, calls = forward_class(node), self.tape.functions
        made = (call for call in reversed(calls) if call.cls is cls and self._made_by(call, number))
        found = next(made, None)
        if found is None and number in self.tape.leaves:
            # No operation of torch was seen in it: all that is known is what came out.
            at, name = len(self.tape.operations), getattr(cls, "__name__", "?")
            found = FunctionCall(name, place_of()[0], cls, (), (), at, at - 1)
            found.opaque_because = "what it was given was not seen"
            calls.append(found)
        return found

    def note_hooks(self, tensor: Tensor, number: int) -> None:
        """Remember the functions that are registered for a tensor's gradient."""
        hooks = gradient_hooks(tensor)
        if hooks:
            self.tape.hooks[number] = hooks

    def _made_by(self, call: FunctionCall, number: int) -> bool:
        made = self.tape.operations[call.first : call.last + 1]
        return any(number in operation.outputs for operation in made)


def _encoded(value: Any, numbers: dict[int, int]) -> Any:
    """A value with references in place of tensors, whose numbers are given by `id`."""
    if type(value) in PLAIN_TYPES:
        return value
    if isinstance(value, Tensor):
        return Ref(numbers[id(value)])
    if isinstance(value, list | tuple):
        return type(value)([_encoded(item, numbers) for item in value])
    if isinstance(value, dict):
        return {key: _encoded(item, numbers) for key, item in value.items()}
    return value


Capture.__torch_dispatch__ = plain_dispatch(Capture)  # type: ignore[method-assign]  # as written
