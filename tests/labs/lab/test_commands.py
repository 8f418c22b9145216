"""The command examines what is not known, keeps it, and writes the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lossleuth.labs.lab import commands, rows, table
from lossleuth.labs.lab.cells import PAIRS, Cell
from lossleuth.labs.lab.examined import is_good
from lossleuth.labs.lab.sources import pipeline


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cells that are examined, each found healthy at once."""
    found: list[str] = []

    def examined(cell: Cell, *, budget: float) -> rows.Row:
        found.append(cell.id)
        row: rows.Row = {
            "cell": cell.id,
            "faults": list(cell.faults),
            "wanted": list(cell.wanted),
            "status": "healthy",
            "causes": [],
            "details": {},
            "errored": [],
            "seconds": 1.0,
            "digest": rows.digest(cell),
            "pipeline": pipeline(),
        }
        return row | {"good": is_good(row)}

    monkeypatch.setattr(commands, "examined", examined)
    return found


def run(folder: Path, said: list[str] | None = None, **options: Any) -> None:
    given: dict[str, Any] = {"pairs": False, "invented": False, "doses": False, "again": False}
    given |= {"hosts": ["plain"], "faults": ["healthy", "ascent"]} | options
    show = (said if said is not None else []).append
    hosts, faults = given.pop("hosts"), given.pop("faults")
    commands.run_lab(folder, hosts, faults, **given, budget=1.0, show=show)


def test_cells_are_examined_once_and_again_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, said = asked(monkeypatch), list[str]()
    run(tmp_path, said)
    assert found == ["plain/healthy", "plain/ascent"]
    assert any("right, healthy" in line for line in said)
    assert any("WRONG, healthy" in line for line in said)
    run(tmp_path)
    assert len(found) == 2
    run(tmp_path, again=True)
    assert len(found) == 4


def test_the_table_is_that_of_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch)
    run(tmp_path)
    written = (tmp_path / table.FILE).read_text(encoding="utf-8")
    assert written == table.table(rows.read(tmp_path))


def test_pairs_and_inventions_are_chosen_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(monkeypatch)
    run(tmp_path, hosts=[], faults=[], pairs=True)
    assert len(found) == len(PAIRS) and all("+" in name for name in found)


def test_doses_are_measured_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(commands, "measured", lambda _folder, only, **_: found.append(only))
    run(tmp_path, faults=["lr_too_high"], doses=True)
    assert found == [("lr_too_high",)]


def test_several_cells_may_be_examined_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(monkeypatch)
    run(tmp_path, jobs=3, faults=["healthy", "ascent", "lr_zero"])
    assert sorted(found) == ["plain/ascent", "plain/healthy", "plain/lr_zero"]
    assert sorted(rows.read(tmp_path)) == sorted(found)
