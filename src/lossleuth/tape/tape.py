"""A recording: operations, the tensors they start from, the numbers that are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import short_name
from lossleuth.torch_internals import OpOverload


class Ref(NamedTuple):
    """Stands for a recorded tensor among an operation's arguments."""

    id: int


class Place(NamedTuple):
    """A line of source: the user's where there is one, else a library's."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Layout(NamedTuple):
    """Type, shape and strides of a recorded tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None


@dataclass(slots=True)
class Operation:
    """One ATen operation, with tensors replaced by references."""

    number: int
    kind: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: tuple[int, ...]
    # Whether each input required a gradient.
    requires_grad: tuple[bool, ...]
    outputs: tuple[int | None, ...]
    several: bool
    written: tuple[int, ...]
    place: Place | None
    module: str | None
    # The call of a custom autograd function that it was part of.
    function: int | None
    # Results that a replay takes from the recording: random numbers, choices, numbers read.
    recorded_results: tuple[Any, ...] | None = None

    @property
    def name(self) -> str:
        """Short name of the operation."""
        return short_name(self.kind)


@dataclass(slots=True)
class FunctionCall:
    """A call of a custom autograd function: its inputs and outputs are tensors of the tape."""

    name: str
    place: Place | None
    cls: Any
    arguments: tuple[Any, ...]
    inputs: tuple[int, ...]
    first: int
    last: int = -1
    outputs: dict[int, int] = field(default_factory=dict)
    # Gradients that its backward was given and gave, by position, where it has run.
    given: list[Tensor | None] | None = None
    gave: list[Tensor | None] | None = None
    # Whether its result was known by its value, and operations of torch stand in its place.
    recognised: bool = False
    # Why it cannot be run again on other inputs, where that was tried.
    opaque_because: str | None = None


class OutsideCall(NamedTuple):
    """A call that computes outside torch and can be run again; its results stand before `at`."""

    call: FunctionCall
    at: int


class Read(NamedTuple):
    """A number that the program read from a tensor, as by `.item()`."""

    tensor: int
    value: Any
    place: Place | None
    by_user: bool
    at: int


@dataclass
class Tape:
    """Operations in order, and everything needed to replay them."""

    operations: list[Operation] = field(default_factory=list)
    layouts: dict[int, Layout] = field(default_factory=dict)
    # Tensors that no recorded operation has made; the tape keeps them alive.
    leaves: dict[int, Tensor] = field(default_factory=dict)
    # Their memory at that time: `.data = ...` gives a tensor other memory.
    contents: dict[int, Tensor] = field(default_factory=dict)
    # Their values, where they were overwritten since.
    snapshots: dict[int, Tensor] = field(default_factory=dict)
    # Tensors that share memory have the same group.
    groups: dict[int, int] = field(default_factory=dict)
    functions: list[FunctionCall] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    # The program's gradient hooks by tensor.
    hooks: dict[int, list[Any]] = field(default_factory=dict)
    # Tensors that were filled outside torch, with the operation before which we noticed.
    opaque: dict[int, int] = field(default_factory=dict)
    # Leaves that are copies of tensors computed before, by a way that torch did not see; and those
    # that were looked at.
    copies: dict[int, int] = field(default_factory=dict)
    compared: set[int] = field(default_factory=set)
    # Calls that a replay makes again, by the groups of their results.
    outside: dict[int, OutsideCall] = field(default_factory=dict)

    # Lines of the user's code, such as an optimizer's, that wrote to leaves between recordings.
    writers: dict[Place, None] = field(default_factory=dict)
    # What `makers` found, and of how many operations.
    _makers: tuple[int, dict[int, Operation]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def value(self, tensor: int) -> Tensor:
        """The value of a leaf when it was first used."""
        snapshot = self.snapshots.get(tensor)
        return self.contents[tensor] if snapshot is None else snapshot

    @property
    def parameters(self) -> dict[int, Tensor]:
        """Leaves that require a gradient; one that was overwritten goes by its latest number."""
        latest = {id(t): i for i, t in self.leaves.items() if t.requires_grad and t.is_leaf}
        return {i: self.leaves[i] for i in latest.values()}

    def needed_for(
        self, wanted: Iterable[int], before: int | None = None, since: int = 0
    ) -> list[Operation]:
        """The operations between two points that these tensors depend on."""
        needed = self.with_sources(wanted)
        groups = {self.groups[i] for i in needed}
        kept: list[Operation] = []
        for operation in reversed(self.operations[since:before]):
            makes = any(i in needed for i in operation.outputs if i is not None)
            writes = any(self.groups[i] in groups for i in operation.written)
            if makes or writes:
                kept.append(operation)
                inputs = self.with_sources(operation.inputs)
                needed.update(inputs)
                groups.update(self.groups[i] for i in inputs)
        return kept[::-1]

    def with_sources(self, numbers: Iterable[int]) -> set[int]:
        """These tensors, and those that they were made of outside torch."""
        found = set(numbers)
        waiting = list(found) if self.copies or self.outside else []
        while waiting:
            number = waiting.pop()
            made_of: tuple[int, ...] = ()
            if number in self.copies:
                made_of = (self.copies[number],)
            if (again := self.outside.get(self.groups[number])) is not None:
                made_of += again.call.inputs
            new = set(made_of) - found
            found |= new
            waiting += new
        return found

    def fed_by_parameters(self, operations: Iterable[Operation]) -> set[int]:
        """Parameters, and everything that these operations compute from them."""
        fed = set(self.parameters)
        for operation in operations:
            if any(i in fed for i in operation.inputs):
                fed.update(o for o in operation.outputs if o is not None)
        return fed

    def makers(self) -> dict[int, Operation]:
        """The operation that made each tensor first; cached until an operation is added."""
        if self._makers is None or self._makers[0] != len(self.operations):
            found: dict[int, Operation] = {}
            for operation in self.operations:
                for number in operation.outputs:
                    if number is not None:
                        found.setdefault(number, operation)
            self._makers = len(self.operations), found
        return self._makers[1]
