"""From a cell to its row: the verdict of `lossleuth run`, and whether it is the right one."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lossleuth
from lossleuth.catalogue import cause
from lossleuth.examiner.verdict import Verdict
from lossleuth.lab.cells import HEALTHY, INVENTED, Cell
from lossleuth.lab.programs.planting import fault_of
from lossleuth.lab.rows import Row, digest
from lossleuth.types import Effect, Judgement, Status, Where

PACKAGE = Path(lossleuth.__file__).parent
# Lines that a verdict may be off.
NEAR = 2


def examined(cell: Cell, *, budget: float = 120.0) -> Row:
    """Run the cell's script as a user would, and say what came of it."""
    from lossleuth.examining import run

    with tempfile.TemporaryDirectory(prefix="lossleuth-lab-") as folder:
        verdict = run(cell.script, cell.arguments, out=Path(folder, "run"), budget=budget)
    return row_of(cell, verdict)


def row_of(cell: Cell, verdict: Verdict) -> Row:
    """What is kept of a verdict."""
    found = [_blamed(cell, i, verdict.judgements[i]) for i in verdict.ranked]
    row: Row = {
        "cell": cell.id,
        "host": cell.host,
        "name": cell.name,
        "faults": list(cell.faults),
        "dose": cell.dose,
        "wanted": list(cell.wanted),
        "status": verdict.status,
        "causes": found,
        "details": {
            i: {"status": j.status.value, "because": _relative(j.because)}
            for i, j in verdict.judgements.items()
            if i in cell.wanted and j.status.value not in ("proven", "suspected", "benign")
        },
        "errored": {
            i: _relative(verdict.judgements[i].because) for i in verdict.of(Status.ERRORED)
        },
        "seconds": round(verdict.seconds, 1),
        "digest": digest(cell),
    }
    return row | {"good": is_good(row)}


def is_good(row: Row) -> bool:
    """Whether the verdict is what was wanted, and nobody else is blamed."""
    if row["errored"]:
        return False
    statuses = {found["id"]: found for found in row["causes"]}
    blamed = [i for i, found in statuses.items() if found["status"] in ("proven", "suspected")]
    wanted = row["wanted"]
    if not wanted and row["faults"]:
        return not any(found["status"] == "proven" for found in row["causes"])
    if not wanted:
        return str(row["status"]) == HEALTHY
    for name in wanted:
        found = statuses.get(name)
        if found is None or found["status"] == "suspected":
            return False
        if found["status"] == "benign" and found["effect"] is None:
            return False
    return all(other in wanted or _overlaps(other, wanted) for other in blamed)


def is_located(row: Row) -> bool | None:
    """Whether the first wanted cause is located within two lines; None where none was found."""
    found = [c["near"] for c in row["causes"] if c["id"] in row["wanted"]]
    return None if not found else bool(found[0])


def _overlaps(other: str, wanted: Sequence[str]) -> bool:
    return any(other in cause(name).overlaps or name in cause(other).overlaps for name in wanted)


def _blamed(cell: Cell, identifier: str, judgement: Judgement) -> dict[str, Any]:
    return {
        "id": identifier,
        "status": judgement.status.value,
        "because": _relative(judgement.because),
        "where": _place(judgement.where),
        "near": _is_near(cell, identifier, judgement.where),
        "effect": None if judgement.harm is None else _effect(judgement.harm),
    }


def _effect(harm: Effect) -> dict[str, Any]:
    return {
        "change": harm.change.sentence,
        "nats": _finite(harm.nats),
        "error": _finite(harm.error),
        "seeds": harm.seeds,
    }


def _finite(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None


def _place(where: Where | None) -> str | None:
    """File and line, without where on this machine the package lies."""
    if where is None or where.file is None:
        return None
    line = "" if where.line is None else f":{where.line}"
    return f"{_relative(where.file)}{line}"


def _relative(words: str) -> str:
    return words.replace(f"{PACKAGE}/", "")


def _is_near(cell: Cell, identifier: str, where: Where | None) -> bool | None:
    """Whether a planted fault's place is within a few lines; None for what was not planted."""
    if identifier not in cell.faults or identifier in INVENTED:
        return None
    fault = fault_of(identifier)
    if where is None or where.file is None or where.line is None:
        return False
    line = where.line
    return Path(where.file).name == fault.file.name and any(
        abs(line - planted) <= NEAR for planted in fault.lines(cell.host)
    )
