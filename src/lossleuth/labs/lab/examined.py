"""From a cell to its row: the verdict of `lossleuth run`, and whether it is the right one."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lossleuth.catalogue import cause
from lossleuth.labs.lab.cells import HEALTHY, HOSTS, INVENTED, PEERS, Cell
from lossleuth.labs.lab.programs.planting import fault_of
from lossleuth.labs.lab.rows import Row, digest
from lossleuth.labs.lab.sources import PACKAGE, pipeline
from lossleuth.process_tree import GRACE_SECONDS, ended_in_order, kill, start
from lossleuth.types.errors import BadInput

CANNOT_TELL = "cannot_tell"
# Lines that a verdict may be off.
NEAR = 2
# How the command ends where it has come to a verdict.
JUDGED = (0, 1)

Verdict = Mapping[str, Any]


def examined(cell: Cell, *, budget: float = 120.0) -> Row:
    """Run the cell's script as a user would, and say what came of it."""
    with ended_in_order(), tempfile.TemporaryDirectory(prefix="lossleuth-lab-") as folder:
        command = [*(sys.executable, "-m", "lossleuth", "run", "--json", f"--budget={budget:g}")]
        command += ["--out", str(Path(folder, "run")), str(cell.script), *cell.arguments]
        process = start(
            command,
            streams=(subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE),
            grace=GRACE_SECONDS,
        )
        try:
            stdout, stderr = process.communicate()
        finally:
            kill(process)
    if process.returncode not in JUDGED:
        words = (stderr.decode(errors="replace").strip().splitlines() or ["no word"])[-1]
        raise BadInput("a verdict", f"{cell.id}: {words}", "run the script by itself")
    return row_of(cell, json.loads(stdout))


def row_of(cell: Cell, verdict: Verdict) -> Row:
    """What is kept of `verdict.json`."""
    details = {
        i: {"status": detail["status"], "because": _relative(detail["because"])}
        for i, detail in verdict["details"].items()
        if i in (*cell.wanted, *verdict["errored"])
        and detail["status"] not in ("proven", "suspected", "benign")
    }
    row: Row = {
        "cell": cell.id,
        "host": cell.host,
        "name": cell.name,
        "faults": list(cell.faults),
        "dose": cell.dose,
        "wanted": list(cell.wanted),
        "status": verdict["status"],
        "causes": [_blamed(cell, found) for found in verdict["causes"]],
        "details": details,
        "errored": list(verdict["errored"]),
        "seconds": round(verdict["seconds"], 1),
        "digest": digest(cell),
        "pipeline": pipeline(),
    }
    return row | {"good": is_good(row)}


def is_good(row: Row) -> bool:
    """Whether the verdict is what was wanted, and nobody else is blamed."""
    if row["errored"]:
        return False
    statuses = {found["id"]: found for found in row["causes"]}
    wanted = row["wanted"]
    blamed = [
        i
        for i, found in statuses.items()
        if i not in wanted and found["status"] in ("proven", "suspected")
    ]
    if not wanted:
        nobodys = any(name in INVENTED for name in row["faults"])
        return bool(row["status"] == (CANNOT_TELL if nobodys else HEALTHY))
    for name in wanted:
        found = statuses.get(name)
        if found is None or found["status"] == "suspected":
            return False
        if found["status"] == "benign" and (found["effect"] is None or blamed):
            # Harmless has its number, and leaves nothing for others to be blamed for.
            return False
    return all(_overlaps(other, wanted) for other in blamed)


def is_located(row: Row) -> bool | None:
    """Whether the first wanted cause is located within two lines; None where none was found."""
    found = [c["near"] for c in row["causes"] if c["id"] in row["wanted"]]
    return None if not found else bool(found[0])


def _overlaps(other: str, wanted: Sequence[str]) -> bool:
    return any(other in cause(name).overlaps or name in cause(other).overlaps for name in wanted)


def _blamed(cell: Cell, found: Verdict) -> dict[str, Any]:
    where = found["where"] or {}
    return {
        "id": found["id"],
        "status": found["status"],
        "because": _relative(found["because"]),
        "where": _place(where),
        "near": _is_near(cell, found["id"], where),
        "effect": None if found["harm"] is None else _effect(found["harm"]),
    }


def _effect(harm: Verdict) -> dict[str, Any]:
    return {
        "change": harm["change"],
        "nats": _finite(harm["nats"]),
        "error": _finite(harm["error"]),
        "seeds": harm["seeds"],
    }


def _finite(value: object) -> float | None:
    """A number; what is infinite is a word in `verdict.json`, and nothing here."""
    return round(value, 4) if isinstance(value, float) and math.isfinite(value) else None


def _place(where: Verdict) -> str | None:
    """File and line, without where on this machine the package lies."""
    if not where.get("file"):
        return None
    line = "" if where["line"] is None else f":{where['line']}"
    return f"{_relative(where['file'])}{line}"


def _relative(words: str) -> str:
    return words.replace(f"{PACKAGE}/", "")


def _is_near(cell: Cell, identifier: str, where: Verdict) -> bool | None:
    """Whether a planted fault's place is within a few lines; None for what was not planted."""
    if identifier not in cell.faults or identifier in INVENTED:
        return None
    fault = fault_of(identifier)
    line = where.get("line")
    if line is None or Path(where["file"]).name != fault.file.name:
        return False
    # The host of the comparison is the plain one.
    host = HOSTS[0] if cell.host == PEERS else cell.host
    return any(abs(line - planted) <= NEAR for planted in fault.lines(host))
