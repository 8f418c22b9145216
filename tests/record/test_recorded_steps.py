"""Recorded steps of a run, from its record."""

from __future__ import annotations

from pathlib import Path

import pytest
from any_finding import every_kind

from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import recorded_steps
from lossleuth.record.write import RecordWriter
from lossleuth.types.errors import BadInput


def written(folder: Path, *events: tuple[str, dict[str, object]]) -> Record:
    writer = RecordWriter.create(folder / "run", {}, warn=pytest.fail)
    for kind, data in events:
        writer.event(kind, data)
    writer.end({"how": "finished"})
    return Record.open(folder / "run")


def test_findings_come_back_in_the_order_of_the_run(tmp_path: Path) -> None:
    steps = [
        RecordedStep(1, every_kind(0.5)),
        RecordedStep(2, every_kind(0.25), part="true_loss"),
    ]
    record = written(tmp_path, *((step.part, step.plain()) for step in steps), ("settings", {}))
    assert recorded_steps(record) == steps
    assert recorded_steps(record, ("true_loss",)) == steps[1:]


@pytest.mark.parametrize(
    "plain",
    [{"step": 1, "alignment": {"offset": 1}}, {"schema": 1, "findings": [{"kind": "leaks"}]}],
)
def test_findings_of_another_release_are_refused_in_a_sentence(
    tmp_path: Path, plain: dict[str, object]
) -> None:
    with pytest.raises(BadInput, match="findings of this release"):
        recorded_steps(written(tmp_path, ("tape", plain)))
