"""Blocks are plain data: what is left out has a sound default."""

from __future__ import annotations

import dataclasses

import pytest

from lossleuth.report.document.blocks import Answer, Chart, Paragraph, Section, Series


def test_blocks_cannot_be_changed_after_they_were_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Paragraph("a").text = "b"  # type: ignore[misc]  # that it is refused is the test


def test_a_chart_is_linear_and_without_levels_by_default() -> None:
    chart = Chart("t", "description", "nats", [Series("s", [0.0], [1.0])])
    assert (list(chart.levels), chart.logarithmic, chart.note) == ([], False, "")
    assert Section("empty").blocks == ()


def test_an_answer_is_labelled_in_words() -> None:
    assert Answer("cannot_tell", "").label == "Cannot tell"
    assert Answer("proven", "").label == "Proven"
