"""The table is a pure function of the rows, and the one that is committed is of the rows."""

from __future__ import annotations

from pathlib import Path

from lossleuth.labs.lab import rows, table
from lossleuth.labs.lab.cells import every, singles

RESULTS = Path(__file__).parents[3] / "docs" / "lab"


def row(name: str, *causes: dict[str, object], good: bool = True) -> rows.Row:
    cell = next(c for c in singles() if (c.host, c.name) == ("plain", name))
    return {
        "cell": cell.id,
        "wanted": list(cell.wanted),
        "status": "proven" if causes else "healthy",
        "causes": list(causes),
        "details": {},
        "seconds": 20.0,
        "good": good,
    }


def test_what_is_committed_is_what_the_rows_generate() -> None:
    written = (RESULTS / table.FILE).read_text(encoding="utf-8")
    assert written == table.table(rows.read(RESULTS))


def test_every_cell_has_a_place() -> None:
    text = table.table({})
    assert text.count(table.NOT_RUN) == len(every())
    assert "0 of 0 cells are right" in text


def test_a_good_cell_says_what_was_found_with_its_number_and_its_place() -> None:
    found = {"id": "ascent", "status": "proven", "near": True, "effect": {"nats": 2.0}}
    known = row("ascent", found)
    text = table.table({known["cell"]: known})
    assert "✓ ascent proven +2.00 @" in text
    assert "1 of 1 cells are right; 1 of 1 faults are located." in text


def test_a_cell_that_was_missed_says_so() -> None:
    known = row("ascent", good=False) | {
        "details": {"ascent": {"status": "refuted", "because": "no"}}
    }
    text = table.table({known["cell"]: known})
    assert "✗ (ascent refuted)" in text and "0 of 1 cells" in text


def test_a_healthy_host_is_said_to_be(tmp_path: Path) -> None:
    known = row("healthy")
    table.write(tmp_path, {known["cell"]: known})
    assert "| healthy | ✓ healthy |" in (tmp_path / table.FILE).read_text(encoding="utf-8")
