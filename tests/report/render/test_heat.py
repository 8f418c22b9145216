"""Heat maps."""

from __future__ import annotations

import base64
import math
import re

import numpy as np

from lossleuth.report.document.blocks import HeatMap
from lossleuth.report.render.heat import draw, levels


def heat_map(values: list[list[float]]) -> HeatMap:
    steps = list(range(len(values[0]))) if values else []
    rows = [f"row {i}" for i in range(len(values))]
    return HeatMap("Flow", "description", "RMS", rows, steps, values)


def test_levels_rise_with_the_logarithm_and_what_has_none_is_0() -> None:
    cells, low, high = levels(np.array([[1e-4, 1e-3, 1e-2], [0.0, math.nan, math.inf]]))
    assert cells.tolist() == [[1, 128, 255], [0, 0, 0]]
    assert (low, high) == (-4.0, -2.0)


def test_equal_numbers_have_one_level() -> None:
    cells, low, high = levels(np.full((2, 2), 0.5))
    assert set(cells.ravel().tolist()) == {1}
    assert low == high


def test_the_picture_carries_every_cell() -> None:
    picture = draw(heat_map([[1.0, 10.0], [100.0, math.nan]]), "p")
    found = re.search(r'data-cells="([^"]*)"', picture)
    assert found is not None
    assert list(base64.b64decode(found[1])) == [1, 128, 255, 0]
    assert 'width="2" height="2"' in picture


def test_without_a_positive_number_there_is_a_sentence() -> None:
    assert "No data" in draw(heat_map([[0.0, math.nan]]), "p")
    assert "No data" in draw(heat_map([]), "p")
