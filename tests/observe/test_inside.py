"""Watching with one line."""

from __future__ import annotations

from pathlib import Path

import torch
from loops import train

import lossleuth


def test_one_line_records_the_loop_and_stops_when_told(tmp_path: Path) -> None:
    watching = lossleuth.watch(out=tmp_path / "run")
    losses = train(3)
    watching.stop()
    train(2)
    record = lossleuth.Record.open(watching.directory)
    assert record.series("loss").tolist() == losses
    assert record.ended is not None
    assert record.ended["how"] == "stop"
    assert "item" not in vars(torch.Tensor)


def test_a_second_watch_gets_a_directory_of_its_own(tmp_path: Path) -> None:
    for expected in ("run", "run-2"):
        with lossleuth.watch(out=tmp_path / "run") as watching:
            train(1)
        assert watching.directory == tmp_path / expected
