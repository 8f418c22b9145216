"""Statistics of every parameter around an optimizer's step, in two passes over memory.

The first pass runs before the update and reads the gradients; it also copies the weights. The
second runs after it and reads weights, copies and moments. Both only read what is the user's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence, Sized

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.native import library as native
from lossleuth.native.columns import GRADIENT_SQUARES, SWALLOWED_SQUARES, WANTED_SQUARES
from lossleuth.native.fallback import flat
from lossleuth.native.layout import Layout
from lossleuth.native.table import Tensors
from lossleuth.native.unread import UnreadTensors

# With fewer elements than these one thread does all the work.
MIN_ELEMENTS_FOR_THREADS = 1_000_000

Results = NDArray[np.float64]


class ParameterPass:
    """The two passes for a list of parameters, made once and used in every step.

    The statistics of gradients are exact. What is measured after the update is exact for tensors
    of up to 8192 elements; of a larger one, one block in `every` is seen, another in each step,
    and sums and counts are scaled up to the whole. `every=1` sees everything.

    >>> from lossleuth.native.columns import COLUMNS
    >>> weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> weight.grad = torch.tensor([0.0, 3.0])
    >>> measured = ParameterPass([weight])
    >>> _ = measured.before_update([weight], [weight.grad])
    >>> torch.optim.SGD([weight], lr=0.5).step()
    >>> row = dict(zip(COLUMNS, measured.after_update([None], [None], [math.nan])[0].tolist()))
    >>> row["gradient_squares"], row["gradient_zeros"], row["update_squares"], row["first_squares"]
    (9.0, 1.0, 2.25, nan)
    """

    # The tensors of the step that is being measured, and what measures those the library cannot.
    _parameters: Sequence[Tensor]
    _gradients: Tensors
    _unread: UnreadTensors | None

    def __init__(
        self, parameters: Sequence[Tensor], *, every: int = 8, threads: int | None = None
    ) -> None:
        if every < 1:
            raise ValueError(f"expected every to be at least 1, found {every}: 1 sees everything")
        # Why a tensor of the last step could not be measured, by its place in the list.
        self.reasons: dict[int, str] = {}
        self._library = native.load()
        self._every = every
        self._threads = threads
        self._step = 0
        self._lay_out(parameters)

    def before_update(self, parameters: Sequence[Tensor], gradients: Tensors) -> Results:
        """Measure the gradients and copy the weights; the columns of the update are still NaN.

        The next call writes into the same array: copy what is to be kept.
        """
        _require(parameters, gradients)
        self.reasons, self._unread = {}, None
        self._step += 1
        uncopied: Collection[int]
        if self._library is None:
            self._fit(parameters)
            self._layout.results.fill(math.nan)
            uncopied = range(len(parameters))
            unmeasured = [i for i, gradient in enumerate(gradients) if gradient is not None]
        else:
            table = self._layout.table
            table.parameters.refresh(parameters)
            # Those that were found are as they were when the table was laid out.
            if table.parameters.unread and self._fit(parameters):
                table = self._layout.table
                table.parameters.refresh(parameters)
            table.gradients.refresh(gradients)
            self._run(self._library.before, self._layout.before_elements)
            uncopied, unmeasured = table.parameters.unread, table.gradients.unread
        self._parameters, self._gradients = list(parameters), list(gradients)
        if uncopied or unmeasured:
            self._unread = UnreadTensors(self._layout, self._step, self.reasons)
            self._unread.copy(uncopied, self._parameters)
            self._unread.measure_gradients(unmeasured, self._gradients)
        return self._layout.results

    def after_update(
        self, first_moments: Tensors, second_moments: Tensors, epsilon_thresholds: Sequence[float]
    ) -> Results:
        """Measure the update that was made since `before_update`, and the moments that made it.

        The next call writes into the same array: `results` copies it.

        A threshold is Adam's epsilon times sqrt(1 - beta2**t), since `sqrt(v) + threshold` then
        is the denominator of its step up to a factor; NaN where there is none.
        """
        _require(self._parameters, first_moments, second_moments, epsilon_thresholds)
        # Without a first moment, the gradient itself is what an update follows.
        directed_by_gradient = [i for i, m in enumerate(first_moments) if m is None]
        unmeasured: Collection[int] = range(len(self._parameters))
        if self._library is not None:
            self._library.put(self._layout.table.thresholds_address, list(epsilon_thresholds))
            unmeasured = self._after_natively(
                self._library, first_moments, second_moments, directed_by_gradient
            )
        if unmeasured:
            unread = self._unread or UnreadTensors(self._layout, self._step, self.reasons)
            unread.measure_updates(
                unmeasured,
                self._parameters,
                gradients=self._gradients,
                first=first_moments,
                second=second_moments,
                thresholds=epsilon_thresholds,
            )
        self._refuse_cleared_gradients(directed_by_gradient)
        self._forget()
        return self._layout.results

    def results(self) -> bytes:
        """A copy of what was measured last, row by row; quicker than numpy's."""
        return self._layout.view.tobytes()

    def _fit(self, parameters: Sequence[Tensor]) -> bool:
        """Lay everything out anew if sizes or types have changed; whether they had."""
        changed = not self._layout.fits(parameters)
        if changed:
            self._lay_out(parameters)
        return changed

    def _lay_out(self, parameters: Sequence[Tensor]) -> None:
        self._layout = Layout(parameters, self._every)
        self._forget()

    def _forget(self) -> None:
        """Drop the user's tensors until the next step."""
        self._parameters, self._gradients, self._unread = [], [], None

    def _threads_for(self, elements: int) -> int:
        return self._threads or (
            1 if elements < MIN_ELEMENTS_FOR_THREADS else torch.get_num_threads()
        )

    def _run(self, function: Callable[[int, int, int], int], elements: int) -> None:
        if function(self._layout.plan_address, self._step, self._threads_for(elements)):
            raise MemoryError("no memory for the statistics of parameters")

    def _after_natively(
        self,
        library: native.Library,
        first: Tensors,
        second: Tensors,
        directed_by_gradient: list[int],
    ) -> Collection[int]:
        """Which parameters are left to measure without the library."""
        table = self._layout.table
        table.parameters.refresh(self._parameters)
        table.first.refresh(first)
        table.second.refresh(second)
        left = set(table.parameters.unread)
        left.update(table.first.unread, table.second.unread)
        if self._unread is not None:
            left.update(self._unread.uncopied)
        if directed_by_gradient:
            table.gradients.refresh(self._gradients)
            left.update(i for i in table.gradients.unread if first[i] is None)
        if left:
            with table.without(left):
                self._run(library.after, self._layout.after_elements)
        else:
            self._run(library.after, self._layout.after_elements)
        return left

    def _refuse_cleared_gradients(self, directed_by_gradient: list[int]) -> None:
        """A gradient that the step itself set to 0 does not say where it wanted to go."""
        results = self._layout.results
        for i in directed_by_gradient:
            gradient = self._gradients[i]
            if gradient is not None:
                size, wanted = results[i, [GRADIENT_SQUARES, WANTED_SQUARES]]
                if wanted == 0 and size > 0 and not flat(gradient).any():
                    results[i, [WANTED_SQUARES, SWALLOWED_SQUARES]] = math.nan
                    self.reasons[i] = "the gradient was cleared inside the step"


def _require(parameters: Sized, *others: Sized) -> None:
    """All of one length, or a wrong call; not a verdict on the user's program."""
    if any(len(other) != len(parameters) for other in others):
        found = ", ".join(str(len(other)) for other in others)
        raise ValueError(f"expected lists of {len(parameters)}, found {found}: pass one per weight")
