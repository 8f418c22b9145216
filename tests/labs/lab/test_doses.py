"""Doses are climbed down until nothing is proven; what is known is not measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lossleuth.catalogue import DOSES
from lossleuth.labs.lab import doses
from lossleuth.labs.lab.cells import Cell
from lossleuth.labs.lab.programs.planting import fault_of
from lossleuth.labs.lab.rows import Row, digest
from lossleuth.labs.lab.sources import pipeline
from lossleuth.types.errors import BadInput

HIGH = fault_of("lr_too_high")


def row(cell: Cell, status: str | None) -> Row:
    """As if the fault had been judged so."""
    found: list[dict[str, Any]] = []
    details = {}
    if status in ("proven", "benign"):
        found.append({"id": cell.name, "status": status, "effect": {"nats": 0.5}})
    elif status is not None:
        details[cell.name] = {"status": status, "because": ""}
    return {"causes": found, "details": details, "digest": digest(cell), "pipeline": pipeline()}


def test_the_smallest_dose_that_is_proven_is_found() -> None:
    asked = []

    def examine(cell: Cell) -> Row:
        assert cell.dose is not None
        asked.append(cell.dose)
        return row(cell, "proven" if cell.dose >= 30 else "refuted")

    found = doses.climbed(HIGH, examine)
    assert found["smallest_proven"] == 30
    assert asked == [1000, 100, 30, 10]
    assert found["said"][-1]["status"] == "refuted" and found["said"][0]["nats"] == 0.5


def test_a_fault_that_is_never_proven_has_no_smallest_dose() -> None:
    found = doses.climbed(HIGH, lambda cell: row(cell, "benign"))
    assert found["smallest_proven"] is None and len(found["said"]) == 1


def test_only_faults_with_a_ladder_have_doses() -> None:
    names = {fault.id for fault in doses.dosed()}
    assert {"lr_too_high", "label_noise", "init_too_large", "clip_too_tight"} <= names
    assert "ascent" not in names


def test_what_is_known_is_kept_and_what_changed_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def examined(cell: Cell, *, budget: float) -> Row:
        asked.append(cell.id)
        return row(cell, "refuted")

    monkeypatch.setattr(doses, "examined", examined)
    for _ in range(2):
        doses.measured(tmp_path, ["lr_too_high"], budget=1.0, show=lambda _: None)
    assert asked == ["plain/lr_too_high@1000"]
    known = doses.read(tmp_path)
    assert doses.stale(known) == []
    known["lr_too_high"]["said"][0]["digest"] = "another"
    assert doses.stale(known) == ["lr_too_high"]


def test_a_fault_without_a_dose_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="ascent"):
        doses.measured(tmp_path, ["ascent"], budget=1.0, show=lambda _: None)


@pytest.mark.slow  # it is red as soon as the pipeline changes, and only a run of the lab helps
def test_what_is_committed_is_of_the_code_as_it_is() -> None:
    assert doses.stale(doses.read(DOSES.parent)) == []
