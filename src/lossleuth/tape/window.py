"""A recorded step: its tape, backward passes and updates."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from torch import Tensor

from lossleuth.tape.tape import Place, Tape

Gradients = dict[int, Tensor | None]
T = TypeVar("T")


@dataclass(eq=False)
class Backward:
    """One backward pass; tensors are numbers on the tape."""

    at: int
    roots: list[int | None]
    # The gradient that each root was given; None stands for 1.
    seeds: list[Tensor | None]
    before: Gradients
    after: Gradients = field(default_factory=dict)
    place: Place | None = None
    # Whether gradients were returned, not added to `.grad`.
    returned: bool = False
    creates_graph: bool = False
    # Gradients of tensors with hooks, after the hooks ran.
    hooked: dict[int, Tensor] = field(default_factory=dict)
    # Gradients of module outputs.
    at_boundaries: dict[int, Tensor] = field(default_factory=dict)

    def added(self) -> Gradients:
        """What this pass added to each parameter's gradient, in float64."""
        parts = {number: self.added_to(number) for number in self.after}
        return {number: None if part is None else dense(part) for number, part in parts.items()}

    def added_to(self, number: int) -> Tensor | None:
        """The same for one parameter: the gradient itself if there was none before."""
        before, after = self.before.get(number), self.after.get(number)
        if after is None or before is None or self.returned:
            return after
        return dense(after) - dense(before)


@dataclass(eq=False)
class Update:
    """One step of an optimizer, with everything that its rule depends on."""

    at: int
    optimizer: Any
    groups: list[dict[str, Any]]
    parameters: list[Tensor]
    before: list[Tensor]
    gradients: list[Tensor | None]
    state: list[dict[str, Any]]
    after: list[Tensor] = field(default_factory=list)
    # The optimizer's state after the step.
    state_after: list[dict[str, Any]] = field(default_factory=list)


@dataclass(eq=False)
class Window:
    """Everything that was recorded of one step."""

    step: int
    tape: Tape
    # Whether its beginning, an evaluation that was too long, was dropped.
    is_partial: bool = False
    backwards: list[Backward] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    # Modules with backward hooks, and where those were written.
    module_hooks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # Module outputs, with the module's path.
    boundaries: dict[int, str] = field(default_factory=dict)
    # Replayed gradients, cached while probes run.
    replayed: dict[tuple[int, bool], Any] = field(default_factory=dict, repr=False)
    # Results shared between probes; None while the window is still being recorded.
    shared: dict[Hashable, Any] | None = field(default=None, repr=False)

    def once(self, key: Hashable, work_out: Callable[[], T]) -> T:
        """Compute a value once and share it under this key."""
        if self.shared is None:
            return work_out()
        if key not in self.shared:
            self.shared[key] = work_out()
        found: T = self.shared[key]
        return found

    def between(self, run: Backward) -> list[int]:
        """Tensors between parameters and loss whose gradient was recorded."""
        watched = dict.fromkeys([*self.tape.hooks, *run.at_boundaries])
        return [i for i in watched if i not in run.before]

    def name_of(self, parameter: int) -> str:
        """The parameter's name, or its shape if it has none."""
        shape = tuple(self.tape.leaves[parameter].shape)
        return self.names.get(parameter, f"a parameter of shape {shape}")


def dense(gradient: Tensor) -> Tensor:
    """A gradient as a dense float64 tensor."""
    return (gradient.to_dense() if gradient.is_sparse else gradient).double()
