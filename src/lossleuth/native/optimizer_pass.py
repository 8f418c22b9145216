"""The passes around an optimizer's step, each in one call where everything is as usual.

Finding gradients, moments and ages in Python takes as long as reading them all. `updates.h` finds
them, for Adam and its kin over plain tensors; else nothing happens, and the lists have to be given
as to any `ParameterPass`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from lossleuth.native.handles import NAMES, Plan, handles
from lossleuth.native.statistics import ParameterPass


class OptimizerPass(ParameterPass):
    """A `ParameterPass` that also takes an optimizer's groups and state as they are.

    >>> import torch
    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> weight.grad = torch.ones(2)
    >>> adam = torch.optim.Adam([weight])
    >>> measured = OptimizerPass([weight])
    >>> quick = measured.before_step([weight], adam.param_groups)
    >>> adam.step()
    >>> if quick:  # where the native library is
    ...     results, ages = measured.after_step(adam.param_groups, adam.state)
    ...     assert (len(results), len(ages)) == (8 * 15, 8)
    """

    def before_step(self, parameters: list[Tensor], groups: list[dict[str, Any]]) -> bool:
        """As `before_update` for an optimizer's groups, in one call; False if that cannot be.

        Then nothing was measured. `parameters` are those that the pass was made for.
        """
        if self._torch is None:
            return False
        step, threads = self._step + 1, self._threads_for(self._layout.before_elements)
        found = self._torch.before_step(*self._addresses, step, threads, parameters, groups, NAMES)
        if found is None:
            return False
        self._step, self.reasons, self._unread = step, {}, None
        self._parameters, self._gradients = parameters, found
        return True

    def after_step(
        self, groups: list[dict[str, Any]], state: dict[Any, Any]
    ) -> tuple[bytes, bytes] | None:
        """As `after_update` for an optimizer like Adam: `results`, and ages; None if it is not."""
        if self._torch is None or not self._parameters:
            return None
        if self._unread is not None and self._unread.uncopied:
            return None
        threads = self._threads_for(self._layout.after_elements)
        parameters = list(self._parameters)
        found = self._torch.after_step(
            *self._addresses, self._step, threads, parameters, groups, state, NAMES
        )
        if found is not None:
            self._forget()
        return found

    def _lay_out(self, parameters: Sequence[Tensor]) -> None:
        super()._lay_out(parameters)
        column = self._layout.table.parameters
        self._addresses = Plan(self._layout.plan_address, column.places.expected)
        # A single number may be still to be negated, which nobody asks in one call.
        self._torch = None if column.has_singles else handles()
