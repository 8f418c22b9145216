"""Encode a heat map as one byte per cell, which the page's script paints."""

from __future__ import annotations

import base64
import math

import numpy as np
from numpy.typing import NDArray

from lossleuth.report.document.blocks import HeatMap
from lossleuth.report.document.numbers import format_number
from lossleuth.report.render.markup import Markup, tag

# Levels above the first; 0 is for cells without a value.
STEPS = 254
LEGEND_MARKS = 5


def levels(values: NDArray[np.float64]) -> tuple[NDArray[np.uint8], float, float]:
    """Each cell's level from 1 to 255, 0 without a value, and the log10 limits of the scale.

    >>> cells, low, high = levels(np.array([[1e-3, 1e-1, np.nan]]))
    >>> cells.tolist(), low, high
    ([[1, 255, 0]], -3.0, -1.0)
    """
    positive = np.isfinite(values) & (values > 0)
    found = np.zeros(values.shape, dtype=np.uint8)
    if not positive.any():
        return found, 0.0, 0.0
    logs = np.log10(np.where(positive, values, 1.0))
    low, high = float(logs[positive].min()), float(logs[positive].max())
    span = high - low or 1.0
    scaled = np.rint((logs - low) / span * STEPS) + 1
    return np.where(positive, scaled, 0).astype(np.uint8), low, high


def draw(chart: HeatMap, name: str) -> Markup:
    """The canvas that the page's script paints, and its colour scale."""
    values = np.array(chart.values, dtype=np.float64).reshape(len(chart.rows), len(chart.steps))
    cells, low, high = levels(values)
    if not cells.any():
        return tag("p", "No data recorded.", class_="none")
    canvas = tag(
        "canvas",
        width=len(chart.steps),
        height=len(chart.rows),
        role="img",
        tabindex="0",
        aria_labelledby=f"{name}-title {name}-description",
        data_cells=base64.b64encode(cells.tobytes()).decode("ascii"),
        data_low=repr(low),
        data_high=repr(high),
        data_steps=" ".join(map(str, chart.steps)),
    )
    marks = [10 ** (low + (high - low) * i / (LEGEND_MARKS - 1)) for i in range(LEGEND_MARKS)]
    labels = [tag("span", format_number(m, 2)) for m in marks if math.isfinite(m)]
    scale = tag(
        "div",
        tag("canvas", class_="scale", width=255, height=1, aria_hidden="true"),
        tag("div", *labels, class_="marks"),
        class_="legend-scale",
    )
    return Markup(canvas + scale)
