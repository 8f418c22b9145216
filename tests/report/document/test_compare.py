"""Two runs side by side."""

from __future__ import annotations

import math
from pathlib import Path

from made_runs import record

from lossleuth.record.write import RecordWriter
from lossleuth.report.document.blocks import Chart, HeatMap
from lossleuth.report.document.compare import comparison


def both(tmp_path: Path, left: dict[str, object], right: dict[str, object]) -> str:
    losses = [3.0, 2.0, 1.0]
    for name, options in (("a", left), ("b", right)):
        given = {"losses": losses} | options
        record(tmp_path / name, **given)  # type: ignore[arg-type]  # options of a record
    return repr(comparison(tmp_path / "a", tmp_path / "b"))


def test_equal_runs_are_bit_identical(tmp_path: Path) -> None:
    words = both(tmp_path, {}, {})
    assert "Answer(status='identical', text='The first 3 steps are bit-identical.')" in words
    assert "No recorded setting differs." in words


def test_the_first_difference_within_a_step_is_named(tmp_path: Path) -> None:
    words = both(tmp_path, {"losses": [3.0, math.nan, 1.0]}, {"losses": [3.0, math.nan, 1.5]})
    sentence = "The runs first differ at step 2, in the loss."
    assert f"Answer(status='different', text='{sentence}')" in words
    other = {"scalars": {"batch": "x"}, "losses": [3.1]}
    words = both(tmp_path / "2", {"scalars": {"batch": "y"}}, other)
    assert "The runs first differ at step 0, in the batch." in words
    assert "['the loss', '0']" in words


def test_steps_are_counted_as_the_record_counts_them(tmp_path: Path) -> None:
    for name, loss in (("a", 1.0), ("b", 2.0)):
        writer = RecordWriter.create(tmp_path / name, {"script": "train.py"}, warn=print)
        writer.step({"step": 100, "loss": 3.0}, None)
        writer.step({"step": 101, "loss": loss}, None)
        writer.end({"how": "exit"})
    words = repr(comparison(tmp_path / "a", tmp_path / "b"))
    assert "The runs first differ at step 101, in the loss." in words
    assert "['the loss', '101']" in words


def test_settings_that_differ_stand_side_by_side(tmp_path: Path) -> None:
    def adam(eps: float) -> dict[str, object]:
        groups = [{"eps": eps, "betas": [0.9, 0.99]}]
        return {"events": [("settings", {"optimizers": [{"class": "Adam", "groups": groups}]})]}

    words = both(tmp_path, adam(1e-8), adam(1e-3))
    assert "['optimizers[0].groups[0].eps', '1e-08', '0.001']" in words
    assert "betas" not in words


def test_a_run_without_steps_cannot_be_compared(tmp_path: Path) -> None:
    words = both(tmp_path, {}, {"losses": [], "parameters": ()})
    assert "there is nothing to compare" in words
    assert "absent" in words or "parameters" in words


def test_curves_and_gradient_flow_of_both_are_shown(tmp_path: Path) -> None:
    record(tmp_path / "one" / "run", [1.0])
    record(tmp_path / "two" / "run", [2.0])
    document = comparison(tmp_path / "one" / "run", tmp_path / "two" / "run")
    blocks = [b for section in document.sections for b in section.blocks]
    assert [c.title for c in blocks if isinstance(c, Chart)] == ["Loss", "Learning rate"]
    labels = [c.title for c in blocks if isinstance(c, HeatMap)]
    assert labels == [str(tmp_path / "one" / "run"), str(tmp_path / "two" / "run")]
