"""What an intervention may do, and when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.window import Backward, Window

# Puts a function in the place of another, for the time of the run.
Replace = Callable[[Any, str, Any], None]


class Intervention:
    """One change in a running program. A subclass overrides what it needs; all else is as it was.

    The names of the constructor's arguments are the options of the change.
    """

    # These two are read from the source as well (`spec.py`): set them in the class itself.
    # Whether every step has to be recorded on a tape.
    wants_tape = False
    # Whether only the size of gradients changes: an optimizer that divides by it, such as Adam, may
    # then take the very same steps, to the last bit.
    only_scales_gradients = False
    # The step that is being recorded, where that is wanted.
    window: Window | None = None

    def install(self, replace: Replace) -> None:
        """The program has not begun yet: put functions of torch in other places."""

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        """The program has made an optimizer."""

    def backward_begins(self, roots: Sequence[Any], *, first: bool) -> None:
        """The engine is about to run, for the first time since an update or once more."""

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """The engine has run; with a tape, what it did is known."""

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to use the gradients."""

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """It has."""

    def updated_by_hand(self, parameters: Sequence[Tensor], before: Sequence[Tensor]) -> None:
        """The program has changed parameters without an optimizer; what they were before."""


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All that an optimizer updates.

    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> len(parameters_of(torch.optim.SGD([weight], lr=0.1)))
    1
    """
    return [p for group in optimizer.param_groups for p in group["params"]]


def copies(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Their values as they are now."""
    return [t.detach().clone() for t in tensors]
