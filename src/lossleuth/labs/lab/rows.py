"""The results of the lab as a file: one line for each cell, replaced cell by cell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lossleuth.files import replace_file
from lossleuth.labs.lab.cells import Cell, every
from lossleuth.labs.lab.programs import planting
from lossleuth.labs.lab.programs.planting import fault_of
from lossleuth.labs.lab.sources import code_of, digest_of, pipeline

FILE = "verdicts.jsonl"
# What every host is made of.
SHARED = ("made_up_text.py", "training_parts.py")
# A host that is another one with other settings.
MADE_OF = {"peers": ("plain.py",)}

Row = dict[str, Any]


def digest(cell: Cell) -> str:
    """Of the program that is examined: the host, its parts, the faults, the arguments.

    A fault is the function that plants it: its neighbours in the file are of no concern.
    """
    files = [cell.script, *(planting.FOLDER / name for name in SHARED)]
    files += [planting.FOLDER / name for name in MADE_OF.get(cell.host, ())]
    found = hashlib.sha256(digest_of(files).encode())
    for name in cell.faults:
        found.update(code_of(fault_of(name).source).encode())
    found.update(" ".join(cell.arguments).encode())
    return found.hexdigest()[:16]


def read(folder: Path) -> dict[str, Row]:
    """The rows that are known, by the id of their cell."""
    path = folder / FILE
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return {row["cell"]: row for row in rows}


def write(folder: Path, rows: Iterable[Row]) -> None:
    """All rows, in the order of the table; those of cells that are no more are left out."""
    by_cell = {row["cell"]: row for row in rows}
    with replace_file(folder / FILE) as stream:
        for cell in every():
            if cell.id in by_cell:
                line = json.dumps(by_cell[cell.id], allow_nan=False, ensure_ascii=False)
                stream.write(f"{line}\n".encode())


def replaced(folder: Path, row: Row) -> dict[str, Row]:
    """The rows with this one in place of what was known of its cell, and written."""
    rows = read(folder) | {row["cell"]: row}
    write(folder, rows.values())
    return rows


def is_stale(cell: Cell, row: Row) -> bool:
    """Whether the program, or the code that judges it, is another than when it was examined."""
    return bool(row.get("digest") != digest(cell) or row.get("pipeline") != pipeline())


def stale(rows: Mapping[str, Row]) -> list[str]:
    """The cells that have to be examined again."""
    return [c.id for c in every() if c.id in rows and is_stale(c, rows[c.id])]
