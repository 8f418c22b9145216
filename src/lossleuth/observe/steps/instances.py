"""Optimizers and schedulers that the program has made, and where it made them."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

# Schedules that are made for a number of steps, and where they keep it.
LENGTHS: dict[type[Any], str] = {OneCycleLR: "total_steps", CosineAnnealingLR: "T_max"}


class Instances:
    """Knows them as long as the program keeps them."""

    def __init__(self) -> None:
        self.optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self.schedulers: weakref.WeakSet[Any] = weakref.WeakSet()
        # The line of the user's code that made each.
        self.places: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        # How many were made so far, and before the first backward pass.
        self.count = 0
        self.before_training: int | None = None

    def training_begins(self) -> None:
        """Called at every backward pass; the first counts."""
        if self.before_training is None:
            self.before_training = self.count

    def idle_besides(self, used: list[torch.optim.Optimizer]) -> list[str]:
        """The kinds of optimizers that were made and are not among these."""
        return [type(o).__name__ for o in self.optimizers if o not in used]

    def schedules(self) -> list[list[Any]]:
        """Each scheduler by its kind, with how often it was stepped."""
        return [[type(s).__name__, int(getattr(s, "last_epoch", -1))] for s in self.schedulers]

    def planned(self) -> list[list[int]]:
        """Of schedules of torch that know their end: how often each was stepped, of how often."""
        return [
            [int(scheduler.last_epoch), int(getattr(scheduler, attribute))]
            for scheduler in self.schedulers
            for kind, attribute in LENGTHS.items()
            if isinstance(scheduler, kind)
        ]
