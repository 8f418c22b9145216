"""From sums over a tensor's elements to the readings that a person or a judge wants.

All are per element or shares, so that a large tensor and a small one can be compared; `grad_l2`
is there for those who add norms up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lossleuth.kernels.statistics import COLUMNS

Matrix = NDArray[np.float64]

READINGS = (
    "grad_l2",
    "grad_rms",
    "grad_max",
    "grad_mean",
    "grad_zero_share",
    "grad_nonfinite",
    "weight_rms",
    "weight_nonfinite",
    "update_rms",
    "update_ratio",  # RMS of the update over RMS of the weight
    "swallowed_share",  # of the wanted update's norm, lost because the weight did not change
    "moment1_rms",
    "moment2_rms",  # root of the mean second moment: what Adam takes for the gradient's RMS
    "moment2_min",
    "epsilon_share",  # elements whose root of the second moment is below epsilon
    "age",  # updates that the optimizer's state remembers
)


def readings(measured: Matrix, sizes: Sequence[int], ages: Sequence[float]) -> Matrix:
    """Readings of each tensor from what one pass measured; NaN stays NaN.

    >>> sums = np.full((1, len(COLUMNS)), np.nan)
    >>> sums[0, COLUMNS.index("gradient_squares")] = 36.0
    >>> dict(zip(READINGS, readings(sums, [4], [7.0])[0]))["grad_rms"]
    np.float64(3.0)
    """
    column = {name: measured[:, place] for place, name in enumerate(COLUMNS)}
    n = np.asarray(sizes, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight_rms = np.sqrt(column["weight_squares"] / n)
        update_rms = np.sqrt(column["update_squares"] / n)
        return np.stack(
            (
                np.sqrt(column["gradient_squares"]),
                np.sqrt(column["gradient_squares"] / n),
                column["gradient_largest"],
                column["gradient_sum"] / n,
                column["gradient_zeros"] / n,
                column["gradient_nonfinite"],
                weight_rms,
                column["weight_nonfinite"],
                update_rms,
                update_rms / weight_rms,
                np.sqrt(column["swallowed_squares"] / column["wanted_squares"]),
                np.sqrt(column["first_squares"] / n),
                np.sqrt(column["second_sum"] / n),
                column["second_smallest"],
                column["second_under_epsilon"] / n,
                np.asarray(ages, dtype=np.float64),
            ),
            axis=1,
        )


def missing(rows: int) -> Matrix:
    """Readings of parameters that were not updated."""
    return np.full((rows, len(READINGS)), np.nan)
