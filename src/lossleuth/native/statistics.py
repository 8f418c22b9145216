"""Statistics of every parameter around an optimizer's step, in two passes over memory.

The first pass runs before the update and reads the gradients; it also copies the weights. The
second runs after it and reads weights, copies and moments. Both only read what is the user's.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Sequence, Sized

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.native import library as native
from lossleuth.native.blocks import TENSOR, groups, is_whole, spans
from lossleuth.native.fallback import (
    Array,
    Number,
    Spans,
    flat,
    gradient_statistics,
    pick,
    update_statistics,
)
from lossleuth.native.table import THRESHOLD, MemoryTable, Tensors
from lossleuth.native.tokens import TokenFingerprint, count_supervised, token_fingerprint

__all__ = ["COLUMNS", "ParameterPass", "TokenFingerprint", "count_supervised", "token_fingerprint"]

# NaN in a column means that there is nothing to measure: no gradient, no moment, no threshold.
COLUMNS = (
    "gradient_sum",
    "gradient_squares",
    "gradient_largest",  # of the absolute values; NaN if one is
    "gradient_zeros",
    "gradient_nonfinite",
    "weight_squares",
    "update_squares",  # of the weight after minus the weight before
    "weight_nonfinite",
    "wanted_squares",  # of the direction: (m, else g) / (sqrt(v) + threshold, else 1)
    "swallowed_squares",  # of the direction where the weight did not change
    "first_squares",
    "second_sum",
    "second_smallest",  # NaN if one is
    "second_under_epsilon",  # elements with sqrt(v) < threshold
    "seen_share",  # of the elements that all columns but the gradient's speak of
)
# With fewer elements than these one thread does all the work.
MIN_ELEMENTS_FOR_THREADS = 1_000_000
GRADIENT = slice(0, 5)
UPDATE = slice(5, 15)
GRADIENT_SQUARES = COLUMNS.index("gradient_squares")
WANTED_SQUARES = COLUMNS.index("wanted_squares")
SWALLOWED_SQUARES = COLUMNS.index("swallowed_squares")

Results = NDArray[np.float64]


class ParameterPass:
    """The two passes for a list of parameters, made once and used in every step.

    The statistics of gradients are exact. What is measured after the update is exact for tensors
    of up to 8192 elements; of a larger one, one block in `every` is seen, another in each step,
    and sums and counts are scaled up to the whole. `every=1` sees everything.

    >>> weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> weight.grad = torch.tensor([0.0, 3.0])
    >>> measured = ParameterPass([weight])
    >>> _ = measured.before_update([weight], [weight.grad])
    >>> torch.optim.SGD([weight], lr=0.5).step()
    >>> row = dict(zip(COLUMNS, measured.after_update([None], [None], [math.nan])[0].tolist()))
    >>> row["gradient_squares"], row["gradient_zeros"], row["update_squares"], row["first_squares"]
    (9.0, 1.0, 2.25, nan)
    """

    # The tensors of the step that is being measured.
    _parameters: Sequence[Tensor]
    _gradients: Tensors
    _first: Tensors
    _second: Tensors
    # Parameters that the library cannot read, and flat copies of them with the spans they hold.
    _uncopied: Collection[int]
    _kept: dict[int, tuple[Array, Spans | None]]
    _all_spans: Spans | None

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
        """Measure the gradients and keep the weights; the columns of the update are still NaN.

        The array is that of the next call too: copy what is to be kept.
        """
        _require(parameters, gradients)
        self._uncopied, self._kept, self._all_spans = (), {}, None
        self.reasons = {}
        self._step += 1
        if self._library is None:
            self._fit(parameters)
            self._results.fill(math.nan)
            self._uncopied = range(len(parameters))
            unmeasured = [i for i, gradient in enumerate(gradients) if gradient is not None]
        else:
            self._table.parameters.refresh(parameters)
            # Those that were found are as they were when the table was laid out.
            if self._table.parameters.unread and self._fit(parameters):
                self._table.parameters.refresh(parameters)
            self._table.gradients.refresh(gradients)
            self._run(self._library.before, self._before_elements)
            self._uncopied = self._table.parameters.unread
            unmeasured = self._table.gradients.unread
        self._parameters, self._gradients = list(parameters), list(gradients)
        if self._uncopied or unmeasured:
            self._attempt(self._uncopied, self._keep)
            self._measure_each(unmeasured, GRADIENT, self._measure_gradient)
        return self._results

    def after_update(
        self, first_moments: Tensors, second_moments: Tensors, epsilon_thresholds: Sequence[float]
    ) -> Results:
        """Measure the update that was made since `before_update`, and the moments that made it.

        The array is that of the next call too: `results` copies it.

        A threshold is Adam's epsilon times sqrt(1 - beta2**t), since `sqrt(v) + threshold` then
        is the denominator of its step up to a factor; NaN where there is none.
        """
        _require(self._parameters, first_moments, second_moments, epsilon_thresholds)
        self._first, self._second = first_moments, second_moments
        self._thresholds = epsilon_thresholds
        # Without a first moment, the gradient itself is what an update follows.
        self._directed_by_gradient = [i for i, m in enumerate(first_moments) if m is None]
        unmeasured: Collection[int] = range(len(self._parameters))
        if self._library is not None:
            unmeasured = self._after_natively(self._library)
        if unmeasured:
            self._measure_each(unmeasured, UPDATE, self._measure_update)
        self._refuse_cleared_gradients()
        self._forget()
        return self._results

    def results(self) -> bytes:
        """A copy of what was measured last, row by row; quicker than numpy's."""
        return self._view.tobytes()

    def _fit(self, parameters: Sequence[Tensor]) -> bool:
        """Lay everything out anew if sizes or types have changed; whether they had."""
        sizes, types = [p.numel() for p in parameters], [p.dtype for p in parameters]
        changed = sizes != self._counts or types != self._dtypes
        if changed:
            self._lay_out(parameters)
        return changed

    def _lay_out(self, parameters: Sequence[Tensor]) -> None:
        """Make everything that depends on the sizes of the parameters."""
        self._counts = [parameter.numel() for parameter in parameters]
        self._dtypes = [parameter.dtype for parameter in parameters]
        self._everything = groups(self._counts, every=1)
        self._selected = groups(self._counts, self._every)
        self._after_elements = int(spans(self._selected, self._counts, 0)[1].sum())
        self._before_elements = sum(self._counts) + self._after_elements
        self._table = MemoryTable(parameters, self._selected)
        self._results = np.full((len(parameters), len(COLUMNS)), math.nan)
        self._view = self._results.data
        self._plan = np.array(
            [
                *(self._table.fields.ctypes.data, len(parameters)),
                *(self._everything.ctypes.data, len(self._everything)),
                *(self._selected.ctypes.data, len(self._selected)),
                *(self._results.ctypes.data, len(COLUMNS)),
            ],
            np.int64,
        )
        self._plan_address = self._plan.ctypes.data
        self._thresholds_address = self._table.fields[THRESHOLD].ctypes.data
        self._forget()

    def _forget(self) -> None:
        """Drop the user's tensors until the next step."""
        self._parameters, self._gradients, self._first, self._second = [], [], [], []
        self._uncopied, self._kept, self._all_spans = (), {}, None

    def _threads_for(self, elements: int) -> int:
        return self._threads or (
            1 if elements < MIN_ELEMENTS_FOR_THREADS else torch.get_num_threads()
        )

    def _run(self, function: Callable[[int, int, int], int], elements: int) -> None:
        if function(self._plan_address, self._step, self._threads_for(elements)):
            raise MemoryError("no memory for the statistics of parameters")

    def _after_natively(self, library: native.Library) -> Collection[int]:
        """Which parameters are left to measure without the library."""
        table = self._table
        table.parameters.refresh(self._parameters)
        table.first.refresh(self._first)
        table.second.refresh(self._second)
        library.put(self._thresholds_address, list(self._thresholds))
        left = {*self._uncopied, *table.parameters.unread}
        left.update(table.first.unread, table.second.unread)
        if self._directed_by_gradient:
            table.gradients.refresh(self._gradients)
            left.update(i for i in table.gradients.unread if self._first[i] is None)
        if left:
            with table.without(left):
                self._run(library.after, self._after_elements)
        else:
            self._run(library.after, self._after_elements)
        return left

    def _measure_each(
        self, rows: Collection[int], columns: slice, statistics: Callable[[int], list[Number]]
    ) -> None:
        """Fill the columns of some rows without the library."""
        on_device: dict[int, Tensor] = {}

        def measure(i: int) -> None:
            numbers = statistics(i)
            device = next((n.device for n in numbers if isinstance(n, Tensor)), None)
            if device is None:
                self._results[i, columns] = numbers
            else:
                row = [torch.as_tensor(n, dtype=torch.float64, device=device) for n in numbers]
                on_device[i] = torch.stack(row)

        def fetch(i: int) -> None:
            self._results[i, columns] = on_device[i].cpu().numpy()

        # First all, then fetch, so that a device computes while the next tensor is prepared.
        self._attempt(rows, measure)
        self._attempt(on_device, fetch)

    def _attempt(self, rows: Collection[int], action: Callable[[int], None]) -> None:
        """Measure one tensor; if that fails, only its own row is lost."""
        with torch.no_grad(), np.errstate(all="ignore"):
            for i in rows:
                try:
                    action(i)
                except Exception as error:
                    self.reasons.setdefault(i, f"{type(error).__name__}: {error}")

    def _keep(self, i: int) -> None:
        values = flat(self._parameters[i])
        # A complex tensor has twice as many values as elements, and is kept whole.
        spans_of = self._spans_of(i) if len(values) == self._counts[i] else None
        self._kept[i] = copy.deepcopy(pick(values, spans_of)), spans_of

    def _measure_gradient(self, i: int) -> list[Number]:
        gradient = self._gradients[i]
        assert gradient is not None
        return gradient_statistics(gradient)

    def _measure_update(self, i: int) -> list[Number]:
        if i in self._kept:
            before, seen = self._kept[i]
        elif i not in self._uncopied:
            seen = self._spans_of(i)
            elements = self._counts[i] if seen is None else int(seen[1].sum())
            before = flat(self._table.copy_of(i, self._dtypes[i], elements))
        else:
            raise ValueError("the weights could not be copied before the update")
        values = flat(self._parameters[i])
        gradient = self._gradients[i] if self._first[i] is None else None

        def seen_of(tensor: Tensor | None, name: str) -> Array | None:
            if tensor is None:
                return None
            others = flat(tensor)
            if len(others) != len(values):
                raise ValueError(f"the {name} has {len(others)} values, the weight {len(values)}")
            return pick(others, seen)

        return update_statistics(
            pick(values, seen),
            before,
            gradient=seen_of(gradient, "gradient"),
            first=seen_of(self._first[i], "first moment"),
            second=seen_of(self._second[i], "second moment"),
            threshold=self._thresholds[i],
            count=len(values),
        )

    def _spans_of(self, i: int) -> Spans | None:
        if is_whole(self._counts[i], self._every):
            return None
        if self._all_spans is None:
            self._all_spans = spans(self._selected, self._counts, self._step)
        begin, end = np.searchsorted(self._selected[:, TENSOR], (i, i + 1))
        return self._all_spans[0][begin:end], self._all_spans[1][begin:end]

    def _refuse_cleared_gradients(self) -> None:
        """A gradient that the step itself set to 0 does not say where it wanted to go."""
        for i in self._directed_by_gradient:
            gradient = self._gradients[i]
            if gradient is not None:
                size, wanted = self._results[i, [GRADIENT_SQUARES, WANTED_SQUARES]]
                if wanted == 0 and size > 0 and not flat(gradient).any():
                    self._results[i, [WANTED_SQUARES, SWALLOWED_SQUARES]] = math.nan
                    self.reasons[i] = "the gradient was cleared inside the step"


def _require(parameters: Sized, *others: Sized) -> None:
    """All of one length, or a wrong call; not a verdict on the user's program."""
    if any(len(other) != len(parameters) for other in others):
        found = ", ".join(str(len(other)) for other in others)
        raise ValueError(f"expected lists of {len(parameters)}, found {found}: pass one per weight")
