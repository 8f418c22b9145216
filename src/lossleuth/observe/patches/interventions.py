"""Lets interventions act on the running program, without recording what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from lossleuth.interventions.intervention import Intervention
from lossleuth.observe.patches.rebind_importers import reach_importers
from lossleuth.observe.session import Session
from lossleuth.observe.steps.recording import Recording
from lossleuth.observe.stop import InterventionFailed
from lossleuth.tape.capture.compiler_marks import never_compile
from lossleuth.tape.capture.graph_leaves import leaves_behind
from lossleuth.tape.replay.clean_state import neutral


class Intervening:
    """Calls every intervention at every point; without any, does nothing."""

    def __init__(
        self,
        interventions: Sequence[Intervention],
        recording: Recording,
        session: Session,
        from_step: int = 0,
    ) -> None:
        self._interventions = interventions
        self._session = session
        # The step from which on they act; until then, the program runs as it is.
        self._from_step = from_step
        self._acts = not from_step
        self._recording = recording
        self._first = True
        self._with_optimizer = False
        self._leaves: list[Tensor] = []
        self._before: list[Tensor] = []

    def __bool__(self) -> bool:
        return bool(self._interventions)

    @property
    def wants_tape(self) -> bool:
        """Whether every step has to be recorded."""
        return any(i.wants_tape for i in self._interventions)

    def install(self, replace: Callable[[Any, str, Any], None]) -> None:
        """Called before the program starts."""
        if self._acts:
            for intervention in self._interventions:
                intervention.install(replace)

    @never_compile
    def step_reached(self, step: int, optimizers: Iterable[Any]) -> None:
        """Called when a step is about to begin, with all optimizers there are."""
        if self._acts or step < self._from_step:
            return
        self._acts = self._first = True
        if self._interventions:
            before = len(self._session.replaced)
            self.install(self._session.replace)
            self._session.on_close(reach_importers(self._session.replaced[before:]))
            for optimizer in list(optimizers):
                self.optimizer_made(optimizer)

    def optimizer_made(self, optimizer: Any) -> None:
        """Called when the program has made an optimizer."""
        self._ask("optimizer_made", optimizer)

    @never_compile
    def backward_begins(self, roots: Sequence[Any]) -> None:
        """Called before the autograd engine runs."""
        if self._interventions and self._acts:
            self._ask("backward_begins", roots, first=self._first)
            self._first = False
            if not self._with_optimizer:
                self._leaves = leaves_behind(roots)

    @never_compile
    def backward_ends(self) -> None:
        """Called after the autograd engine has run."""
        if self._interventions and self._acts:
            # Interventions differentiate, so gradients are enabled whatever the program does.
            with neutral(float64=False, gradients=True):
                self._ask("backward_ends", *self._recording.latest)
            if not self._with_optimizer:
                with self._session.ours():
                    self._before = [leaf.detach().clone() for leaf in self._leaves]

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Called before an optimizer uses the gradients."""
        self._with_optimizer = True
        self._ask("before_update", optimizer)

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Called after the update."""
        self._first = True
        self._ask("after_update", optimizer)

    def updated_by_hand(self) -> None:
        """Called when the program has changed its parameters itself."""
        self._first = True
        if self._interventions and self._before:
            self._ask("updated_by_hand", self._leaves, self._before)
            self._before = []

    def _ask(self, what: str, *args: Any, **kwargs: Any) -> None:
        if not self._interventions or not self._acts:
            return
        with self._session.ours():
            for intervention in self._interventions:
                intervention.window = self._recording.window
                try:
                    getattr(intervention, what)(*args, **kwargs)
                except Exception as error:
                    name = type(intervention).__name__
                    raise InterventionFailed(f"{name}: {type(error).__name__}: {error}") from error
