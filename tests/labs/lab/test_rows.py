"""Rows are replaced cell by cell, and those that are kept are of the sources as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.labs.lab import rows
from lossleuth.labs.lab.cells import Cell, every
from lossleuth.labs.lab.examined import is_good
from lossleuth.labs.lab.programs import planting
from lossleuth.labs.lab.programs.planting import Fault
from lossleuth.labs.lab.sources import pipeline

RESULTS = Path(__file__).parents[3] / "docs" / "lab"


def row(cell: Cell, **fields: object) -> rows.Row:
    known = {"cell": cell.id, "digest": rows.digest(cell), "pipeline": pipeline()}
    return {**known, **fields}


@pytest.mark.slow  # it is red as soon as the pipeline changes, and only a run of the lab helps
def test_what_is_committed_is_of_the_code_as_it_is() -> None:
    assert rows.stale(rows.read(RESULTS)) == []


def test_what_is_committed_is_of_cells_that_exist_and_judged_as_now() -> None:
    known = rows.read(RESULTS)
    assert set(known) <= {cell.id for cell in every()}
    assert [i for i, row in known.items() if row["good"] is not is_good(row)] == []


def test_a_row_is_replaced_and_the_others_stay_in_order(tmp_path: Path) -> None:
    first, second = every()[:2]
    rows.replaced(tmp_path, row(second, status="healthy"))
    rows.replaced(tmp_path, row(first, status="healthy"))
    found = rows.replaced(tmp_path, row(second, status="proven"))
    assert [r["status"] for r in rows.read(tmp_path).values()] == ["healthy", "proven"]
    assert set(found) == {first.id, second.id}


def test_rows_of_cells_that_are_no_more_are_left_out(tmp_path: Path) -> None:
    rows.write(tmp_path, [{"cell": "gone/for_good"}, row(every()[0])])
    assert list(rows.read(tmp_path)) == [every()[0].id]


def test_nothing_is_known_of_an_empty_folder(tmp_path: Path) -> None:
    assert rows.read(tmp_path) == {}


def test_digests_differ_from_cell_to_cell_and_change_with_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = next(c for c in every() if c.name == "ascent")
    before = rows.digest(cell)
    assert len({rows.digest(c) for c in every()}) == len(every())
    monkeypatch.setattr(Fault, "source", "def ascent(): another")
    assert rows.digest(cell) != before
    assert rows.stale({cell.id: row(cell, digest=before)}) == [cell.id]


def test_a_digest_changes_with_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = every()[0]
    before = rows.digest(cell)
    for file in planting.FOLDER.glob("*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(planting, "FOLDER", tmp_path)
    assert rows.digest(cell) == before
    with (tmp_path / cell.script.name).open("a") as script:
        script.write("\n# a word\n")
    assert rows.digest(cell) == before
    with (tmp_path / cell.script.name).open("a") as script:
        script.write("\nanother = 1\n")
    assert rows.digest(cell) != before


def test_a_row_is_stale_when_the_pipeline_has_changed() -> None:
    cell = every()[0]
    assert rows.stale({cell.id: row(cell)}) == []
    assert rows.stale({cell.id: row(cell, pipeline="another")}) == [cell.id]
    # Rows from before the pipeline was noted.
    assert rows.stale({cell.id: {"cell": cell.id, "digest": rows.digest(cell)}}) == [cell.id]
