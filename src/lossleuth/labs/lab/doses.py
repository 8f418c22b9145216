"""How little of a fault is still proven: a ladder of doses on the plain host."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lossleuth.catalogue import DOSES, causes
from lossleuth.files import replace_file
from lossleuth.labs.lab.cells import Cell
from lossleuth.labs.lab.examined import examined
from lossleuth.labs.lab.programs.planting import Fault, fault_of
from lossleuth.labs.lab.rows import Row, is_stale
from lossleuth.types.errors import BadInput

FILE = DOSES.name
HOST = "plain"

Examine = Callable[[Cell], Row]


def dosed() -> list[Fault]:
    """The faults of which there is a more and a less."""
    return [fault for c in causes() if len((fault := fault_of(c.id)).ladder) > 1]


def cell_of(fault: Fault, dose: float) -> Cell:
    """The plain host with so much of a fault."""
    return Cell(HOST, fault.id, (fault.id,), dose, fault.rule)


def climbed(fault: Fault, examine: Examine) -> dict[str, Any]:
    """Go from plain to hardly there, until it is no longer proven.

    The smallest dose that was proven, the largest that was not, and what was said of each.
    """
    said: list[dict[str, Any]] = []
    smallest = None
    for dose in fault.ladder:
        row = examine(cell_of(fault, dose))
        found = next((c for c in row["causes"] if c["id"] == fault.id), None)
        status = (
            row["details"].get(fault.id, {}).get("status") if found is None else found["status"]
        )
        effect = None if found is None or found["effect"] is None else found["effect"]["nats"]
        said.append(
            {
                "dose": dose,
                "status": status,
                "nats": effect,
                "digest": row["digest"],
                "pipeline": row["pipeline"],
            }
        )
        if status != "proven":
            break
        smallest = dose
    return {"smallest_proven": smallest, "ladder": list(fault.ladder), "said": said}


def read(folder: Path) -> dict[str, Any]:
    """What is known, by fault."""
    path = folder / FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def stale(known: dict[str, Any]) -> list[str]:
    """Faults whose sources or ladders are no longer those that were measured."""
    found = []
    for fault in dosed():
        if fault.id not in known:
            continue
        kept = known[fault.id]
        old = [one for one in kept["said"] if is_stale(cell_of(fault, one["dose"]), one)]
        if old or kept["ladder"] != list(fault.ladder):
            found.append(fault.id)
    return found


def measured(
    folder: Path, only: Sequence[str], *, budget: float, show: Callable[[str], None]
) -> None:
    """Measure all that is not known, and write after each."""
    names = {fault.id for fault in dosed()}
    for name in only:
        if name not in names:
            raise BadInput(
                "faults with a dose", repr(name), f"give one of {', '.join(sorted(names))}"
            )
    for fault in dosed():
        known = read(folder)
        if (only and fault.id not in only) or (fault.id in known and fault.id not in stale(known)):
            continue

        def examine(cell: Cell) -> Row:
            show(f"{cell.id}")
            return examined(cell, budget=budget)

        known[fault.id] = climbed(fault, examine)
        show(f"  smallest dose that is proven: {known[fault.id]['smallest_proven']}")
        with replace_file(folder / FILE) as stream:
            stream.write(json.dumps(known, indent=1, sort_keys=True, allow_nan=False).encode())
            stream.write(b"\n")
