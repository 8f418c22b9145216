"""From sums over a tensor's elements to the readings that a person or a judge wants.

All are per element or shares, so that a large tensor and a small one can be compared; `grad_l2`
is there for those who add norms up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lossleuth.native.columns import COLUMNS

Matrix = NDArray[np.float64]

# Each reading: the sum that it comes from, whether it is per element, whether a root is taken.
_MADE_OF = {
    "grad_l2": ("gradient_squares", False, True),
    "grad_rms": ("gradient_squares", True, True),
    "grad_max": ("gradient_largest", False, False),
    "grad_mean": ("gradient_sum", True, False),
    "grad_zero_share": ("gradient_zeros", True, False),
    "grad_nonfinite": ("gradient_nonfinite", False, False),
    "weight_rms": ("weight_squares", True, True),
    "weight_nonfinite": ("weight_nonfinite", False, False),
    "update_rms": ("update_squares", True, True),
    # RMS of the update over RMS of the weight.
    "update_ratio": ("update_squares", False, True),
    # Of the wanted update's norm, lost because the weight did not change.
    "swallowed_share": ("swallowed_squares", False, True),
    "moment1_rms": ("first_squares", True, True),
    # Root of the mean second moment: what Adam takes for the gradient's RMS.
    "moment2_rms": ("second_sum", True, True),
    "moment2_min": ("second_smallest", False, False),
    # Elements whose root of the second moment is below epsilon.
    "epsilon_share": ("second_under_epsilon", True, False),
    # Updates that the optimizer's state remembers; written over.
    "age": ("seen_share", False, False),
}
READINGS = tuple(_MADE_OF)
_SOURCE = np.array([COLUMNS.index(source) for source, _, _ in _MADE_OF.values()])
_PER_ELEMENT = np.array([per_element for _, per_element, _ in _MADE_OF.values()])
_ROOT = np.array([root for _, _, root in _MADE_OF.values()])
_RATIO, _SWALLOWED, _AGE = map(READINGS.index, ("update_ratio", "swallowed_share", "age"))
_WEIGHT, _WANTED = map(COLUMNS.index, ("weight_squares", "wanted_squares"))


def divisors(sizes: Sequence[int]) -> Matrix:
    """What turns the sums over tensors of these sizes into readings, made once for all steps."""
    return np.where(_PER_ELEMENT, np.asarray(sizes, dtype=np.float64)[:, None], 1.0)


def readings(measured: Matrix, divisors: Matrix, ages: ArrayLike) -> Matrix:
    """Readings of each tensor from what one pass measured, or several of the same tensors.

    NaN stays NaN.

    >>> sums = np.full((1, len(COLUMNS)), np.nan)
    >>> sums[0, COLUMNS.index("gradient_squares")] = 36.0
    >>> dict(zip(READINGS, readings(sums, divisors([4]), [7.0])[0]))["grad_rms"]
    np.float64(3.0)
    """
    found = measured.take(_SOURCE, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        in_passes = found.reshape(-1, *divisors.shape)
        in_passes /= divisors
        found[:, _RATIO] /= measured[:, _WEIGHT]
        found[:, _SWALLOWED] /= measured[:, _WANTED]
        np.sqrt(found, out=found, where=_ROOT)
    found[:, _AGE] = ages
    return found


def missing(rows: int) -> Matrix:
    """Readings of parameters that were not updated."""
    return np.full((rows, len(READINGS)), np.nan)
