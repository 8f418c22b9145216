"""What the probes of one recorded step share: roles, copies, replayed gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType

from lossleuth.tape.roles.loss_roles import best_roles
from lossleuth.tape.roles.roles import Roles, find_roles
from lossleuth.tape.window import Backward, Window


@dataclass
class RunMemory:
    """Places found on earlier recorded steps of the run, so that nobody searches again."""

    places: dict[str, str] = field(default_factory=dict)

    def place(self, of: str, look_for: Callable[[], str | None]) -> str | None:
        """The place under this name; search until it is found."""
        if of not in self.places and (found := look_for()) is not None:
            self.places[of] = found
        return self.places.get(of)


class Analysis:
    """A finished recording of a step, while probes run on it.

    Roles, makers and replayed gradients are kept with the window until it is closed.
    """

    def __init__(
        self,
        window: Window,
        memory: RunMemory | None = None,
        names: Callable[[Window], dict[int, str]] | None = None,
    ) -> None:
        self.window = window
        self.memory = RunMemory() if memory is None else memory
        self._names = names
        self._settled = ExitStack()

    def __enter__(self) -> Analysis:
        """Start to cache results."""
        self.window.shared = {}
        self._settled.enter_context(self.window.tape.settled())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Drop the cache: gradients take as much memory as the model."""
        self._settled.close()
        self.window.shared = None
        self.window.replayed.clear()

    @property
    def backwards(self) -> list[Backward]:
        """The backward passes of the step."""
        return self.window.backwards

    @cached_property
    def roles(self) -> Roles | None:
        """Roles in what is differentiated, or in the loss if there was no backward pass."""
        return find_roles(self.window) if self.window.backwards else best_roles(self.window)

    @cached_property
    def loss_roles(self) -> Roles | None:
        """Roles in the loss that the user's code reads, else as `roles`."""
        return best_roles(self.window) or self.roles

    @cached_property
    def names(self) -> dict[int, str]:
        """Names of the script's variables for tensors in a step without autograd."""
        return {} if self._names is None else self._names(self.window)
