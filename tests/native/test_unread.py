"""Rows that are measured without the library; `test_statistics.py` has the figures."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from lossleuth.native.blocks import BLOCK
from lossleuth.native.columns import COLUMNS
from lossleuth.native.layout import Layout
from lossleuth.native.unread import UnreadTensors

UPDATE_SQUARES = COLUMNS.index("update_squares")


def updated(
    unread: UnreadTensors, rows: list[int], parameters: list[Tensor], first: Tensor | None = None
) -> None:
    nothing = [None] * len(parameters)
    unread.measure_updates(
        rows,
        parameters,
        gradients=nothing,
        first=[first] * len(parameters),
        second=nothing,
        thresholds=[math.nan] * len(parameters),
    )


def test_only_the_rows_that_are_asked_for_are_filled() -> None:
    parameters = [torch.ones(3), torch.ones(2)]
    layout, reasons = Layout(parameters, every=8), dict[int, str]()
    unread = UnreadTensors(layout, 1, reasons)
    unread.copy([1], parameters)
    unread.measure_gradients([1], [None, torch.ones(2)])
    parameters[1] += 2
    updated(unread, [1], parameters)
    assert reasons == {}
    assert np.isnan(layout.results[0]).all()
    assert layout.results[1, 0] == 2 and layout.results[1, UPDATE_SQUARES] == 8


def test_the_part_that_is_copied_is_the_part_that_is_compared() -> None:
    weight = torch.arange(16.0 * BLOCK)
    layout, reasons = Layout([weight], every=8), dict[int, str]()
    unread = UnreadTensors(layout, 5, reasons)
    unread.copy([0], [weight])
    updated(unread, [0], [weight])
    assert reasons == {}
    assert layout.results[0, COLUMNS.index("seen_share")] == 1 / 8
    assert layout.results[0, UPDATE_SQUARES] == 0


def test_a_row_that_fails_is_named_and_the_next_is_measured() -> None:
    parameters = [torch.empty(3, device="meta"), torch.ones(3)]
    layout, reasons = Layout(parameters, every=8), dict[int, str]()
    unread = UnreadTensors(layout, 1, reasons)
    unread.copy([0, 1], parameters)
    updated(unread, [0, 1], parameters)
    # The first reason stands, though the copy is missed later too.
    assert reasons == {0: "ValueError: it has a shape but no values"}
    assert layout.results[1, COLUMNS.index("weight_squares")] == 3


def test_a_moment_of_another_size_is_no_moment() -> None:
    weight = torch.ones(3)
    reasons: dict[int, str] = {}
    unread = UnreadTensors(Layout([weight], every=8), 1, reasons)
    unread.copy([0], [weight])
    updated(unread, [0], [weight], first=torch.ones(2))
    assert reasons == {0: "ValueError: the first moment has 2 values, the weight 3"}
