"""The numbers that a backward pass begins with, kept without waiting for them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor

from lossleuth.native.handles import handles
from lossleuth.observe.steps.clipping import kept


class Losses:
    """Keeps losses; of one that a scaler has multiplied, what it was before."""

    def __init__(self) -> None:
        self._torch = handles()
        self._scaled: Callable[[], Any] = lambda: None
        self._unscaled: Any = None

    def scaled(self, loss: Tensor, scaled: Tensor) -> None:
        """A loss was multiplied by a scaler's factor, and may be beyond its format now."""
        self._scaled, self._unscaled = weakref.ref(scaled), kept(loss)

    def of(self, root: Any) -> Any:
        """The loss that a root of a backward pass is, or None."""
        if not isinstance(root, Tensor) or root.numel() != 1:
            return None
        return self._unscaled if self._scaled() is root else self.kept(root)

    def kept(self, number: Any) -> Any:
        """A number of torch's, as it is now."""
        return kept(number, self._torch)
