"""What the probes of one recorded step share: roles, copies, replayed gradients."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType

from lossleuth.tape.roles.loss_roles import best_roles
from lossleuth.tape.roles.roles import Roles, find_roles
from lossleuth.tape.window import Backward, Window

# Shares of the time that a run has left: for all probes of one step together, and for one of them.
# Picked by hand: with a budget of 120 s some 27 s and 11 s, where most steps take below 5 s.
LOOK_SHARE, PROBE_SHARE = 0.25, 0.1
# A probe that was stopped so often is not run again.
MAX_STOPS = 2


@dataclass
class RunMemory:
    """What recorded steps of one run know of each other."""

    # Places found on earlier steps, so that nobody searches again.
    places: dict[str, str] = field(default_factory=dict)
    # Answers that hold for the whole run.
    answers: dict[str, bool] = field(default_factory=dict)
    # When the run has to be over, in seconds since the epoch; other processes know this clock.
    until: float = math.inf
    # How often a probe was stopped because it took too long, by its name.
    stops: Counter[str] = field(default_factory=Counter)

    def look_seconds(self) -> float:
        """What all probes of the next step may take together."""
        return max(0.0, LOOK_SHARE * (self.until - time.time()))

    def place(self, of: str, look_for: Callable[[], str | None]) -> str | None:
        """The place under this name; search until it is found."""
        if of not in self.places and (found := look_for()) is not None:
            self.places[of] = found
        return self.places.get(of)

    def answer(self, of: str, look: Callable[[], bool]) -> bool:
        """The answer under this name; looked for once."""
        if of not in self.answers:
            self.answers[of] = look()
        return self.answers[of]


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
