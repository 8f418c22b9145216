"""Blocks are plain data: what is left out has a sound default."""

from __future__ import annotations

import dataclasses

import pytest

from lossleuth.report.document.blocks import Chart, Paragraph, Section, Series


def test_blocks_cannot_be_changed_after_they_were_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Paragraph("a").text = "b"  # type: ignore[misc]  # that it is refused is the test


def test_a_chart_is_linear_and_without_levels_unless_told_otherwise() -> None:
    chart = Chart("t", "told", "nats", [Series("s", [0.0], [1.0])])
    assert (list(chart.levels), chart.logarithmic, chart.note) == ([], False, "")
    assert Section("empty").blocks == ()
