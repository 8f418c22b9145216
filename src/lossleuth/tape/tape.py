"""A recording: operations, the tensors they start from, the numbers that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lossleuth.tape.op_schemas import Traits, traits_of
from lossleuth.tape.operation_index import OperationIndex, needed_positions
from lossleuth.torch_internals import OpOverload

# Answers to what tensors depend on that are kept. Picked by hand.
MAX_KEPT_ANSWERS = 16


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
    # Short name of the operation, and what its schema says: asked for too often to look it up.
    name: str = field(init=False, repr=False, compare=False)
    traits: Traits = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look its kind up, once."""
        self.traits = traits_of(self.kind)
        self.name = self.traits.name


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
    # Tensors that asked for a gradient when an operation took them: they may be frozen later.
    asked: set[int] = field(default_factory=set)
    # The numbers of parameters at the last backward pass, by `id`: what is used after the update
    # goes by another.
    at_backward: dict[int, int] = field(default_factory=dict, repr=False)
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
    # What was found out about the operations so far.
    _index: OperationIndex = field(
        default_factory=OperationIndex, init=False, repr=False, compare=False
    )
    _makers: tuple[int, dict[int, Operation]] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    # What `needed_at` found lately.
    _needed: dict[Any, list[Operation]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # How to replay what was asked for lately.
    plans: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What replays have given while the tape is settled.
    values: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What `parameters` gives while nothing can change it.
    _parameters: dict[int, Tensor] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def value(self, tensor: int) -> Tensor:
        """The value of a leaf when it was first used."""
        snapshot = self.snapshots.get(tensor)
        return self.contents[tensor] if snapshot is None else snapshot

    @property
    def parameters(self) -> dict[int, Tensor]:
        """Leaves that ask for a gradient.

        One that was overwritten goes by its number at the last backward pass, else by its latest.
        """
        if self._parameters is not None:
            return self._parameters
        latest = {
            id(t): i
            for i, t in self.leaves.items()
            if (i in self.asked or t.requires_grad) and t.is_leaf
        }
        latest |= {key: i for key, i in self.at_backward.items() if key in latest}
        return {i: self.leaves[i] for i in latest.values()}

    def backward_begins(self) -> None:
        """Parameters go by their latest numbers."""
        self.at_backward = {}

    def backward_ends(self) -> None:
        """From here on, parameters go by the numbers they have now."""
        self.at_backward = {id(t): i for i, t in self.parameters.items()}

    @contextmanager
    def settled(self) -> Iterator[None]:
        """In this block the program does not run: what was found out stays true."""
        self._parameters = None
        self._parameters = self.parameters
        try:
            yield
        finally:
            self._parameters = None
            self.values.clear()

    @property
    def is_settled(self) -> bool:
        """Whether results may be kept: the program does not run, and somebody clears them."""
        return self._parameters is not None

    def needed_for(
        self, wanted: Iterable[int], before: int | None = None, since: int = 0
    ) -> list[Operation]:
        """The operations between two points that these tensors depend on."""
        end = len(self.operations) if before is None else min(before, len(self.operations))
        return self.needed_at({end: wanted}, since)

    def needed_at(self, points: Mapping[int, Iterable[int]], since: int = 0) -> list[Operation]:
        """The operations that tensors depend on as they are before an operation, by its number.

        Takes time in proportion to what is needed, not to the tape.
        """
        index, operations = self.index(), self.operations
        asked = frozenset((at, frozenset(wanted)) for at, wanted in points.items())
        links = frozenset(self.copies.items()), frozenset(self.outside)
        key = asked, since, len(operations), links
        if key not in self._needed:
            while len(self._needed) >= MAX_KEPT_ANSWERS:
                del self._needed[next(iter(self._needed))]
            found = needed_positions(
                index, operations, self.groups, self._sources(), dict(asked), since
            )
            self._needed[key] = [operations[i] for i in found]
        return list(self._needed[key])

    def newly_needed(
        self, wanted: Iterable[int], before: int, covered: set[int]
    ) -> list[Operation]:
        """As `needed_for`, without operations that are `covered`; those found are from now on.

        For many questions of which each is a part of the next: together they take one walk.
        """
        found = needed_positions(
            self.index(),
            self.operations,
            self.groups,
            self._sources(),
            {before: wanted},
            covered=covered,
        )
        covered.update(found)
        return [self.operations[i] for i in found]

    def replace_operation(self, operation: Operation) -> None:
        """Put another operation in the place of the one with its number."""
        self.operations[operation.number] = operation
        self._index, self._makers = OperationIndex(), None
        self._forget()

    def link_copy(self, number: int, source: int) -> None:
        """Note what a leaf is a copy of."""
        self.copies[number] = source
        self._forget()

    def link_outside(self, call: FunctionCall) -> None:
        """Let replays make a call again."""
        again = OutsideCall(call, call.last + 1)
        self.outside.update({self.groups[i]: again for i in call.outputs.values()})
        self._forget()

    def _forget(self) -> None:
        """Answers that were given before a change are no longer true."""
        for answers in (self._needed, self.plans, self.values):
            answers.clear()

    def index(self) -> OperationIndex:
        """Which operations make each tensor and write to each piece of memory, so far."""
        if self._index.length > len(self.operations):
            self._index = OperationIndex()
        self._index.extend(self.operations, self.groups)
        return self._index

    def _sources(self) -> Callable[[Iterable[int]], Iterable[int]] | None:
        return self.with_sources if self.copies or self.outside else None

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
            first = self.index().makers
            found = {number: self.operations[at[0]] for number, at in first.items()}
            self._makers = len(self.operations), found
        return self._makers[1]
