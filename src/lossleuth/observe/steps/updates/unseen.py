"""Updates that no hook reports: made by hand, or by a compiled optimizer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from lossleuth.observe.steps.parameters.table import ParameterTable
from lossleuth.observe.steps.step import StepWindow
from lossleuth.observe.steps.updates.missing_update import unfinished
from lossleuth.observe.steps.updates.unchanged import Resting

# Backward passes without an optimizer's step after which updates by hand are looked for.
MAX_BACKWARDS_WITHOUT_STEP = 64


class UnseenUpdates:
    """Decides when to look for them; the parameters show whether there was one."""

    def __init__(self, table: ParameterTable, made: Collection[torch.optim.Optimizer]) -> None:
        self._table = table
        self._made = made
        # Called for each update that was found.
        self.when_found: Callable[[], None] = lambda: None
        self._backwards = 0
        # Parameters of optimizers, until one of those makes an update.
        self.resting: Resting | None = None

    @property
    def are_looked_for(self) -> bool:
        """Whether anything is updated without a hook being called."""
        return not self._table.known or bool(self._table.unseen)

    def backward_begins(self, roots: Sequence[Any]) -> None:
        """Called before the engine differentiates `roots`."""
        self._backwards += 1
        if self._table.known:
            return
        if self.resting is None and self._made:
            self.resting = Resting(self._made)
        # An optimizer that was made will most likely be used; if it is not, look for ourselves.
        if not self._made or self._backwards > MAX_BACKWARDS_WITHOUT_STEP:
            self._table.note_roots(roots)

    def found(self) -> list[str]:
        """By whom parameters were updated since the last backward pass, with no hook called."""
        if not self.are_looked_for:
            return []
        found = self._table.hand_updates()
        for _ in found:
            self.when_found()
        return found

    def missing(self, window: StepWindow, made_at: Mapping[Any, str]) -> dict[str, Any]:
        """What is known of a last step whose update never came."""
        return unfinished(window, self._made, made_at, self.resting)

    def optimizer_updated(self) -> None:
        """Called when a hook reports an update."""
        self._backwards = 0
