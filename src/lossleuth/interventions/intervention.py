"""What an intervention may do, and when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from lossleuth.tape.window import Backward, Window

# Replaces a function by another until the run ends.
Replace = Callable[[Any, str, Any], None]


class Intervention:
    """One change in a running program. A subclass overrides the methods it needs.

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
        """Called before the program starts: patch torch here."""

    def optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        """Called when the program makes an optimizer."""

    def backward_begins(self, roots: Sequence[Any], *, first: bool) -> None:
        """Called before a backward pass, the first since an update or another one."""

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Called after a backward pass; with a tape, its recording is there."""

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Called before an optimizer's step."""

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Called after an optimizer's step."""

    def updated_by_hand(self, parameters: Sequence[Tensor], before: Sequence[Tensor]) -> None:
        """Called after an update by hand, with the values before it."""


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All parameters of an optimizer.

    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> len(parameters_of(torch.optim.SGD([weight], lr=0.1)))
    1
    """
    return [p for group in optimizer.param_groups for p in group["params"]]


def copies(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Copies of their present values."""
    return [t.detach().clone() for t in tensors]
