"""What is measured of each parameter around an update, column by column."""

from __future__ import annotations

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
GRADIENT = slice(0, 5)
UPDATE = slice(5, 15)
GRADIENT_SQUARES = COLUMNS.index("gradient_squares")
WANTED_SQUARES = COLUMNS.index("wanted_squares")
SWALLOWED_SQUARES = COLUMNS.index("swallowed_squares")
