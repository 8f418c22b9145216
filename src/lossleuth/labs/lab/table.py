"""The results of the lab as a table to be read: faults down, hosts across."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lossleuth.catalogue import causes
from lossleuth.files import replace_file
from lossleuth.labs.lab.cells import (
    HEALTHY,
    HOSTS,
    PEERS,
    TWINS,
    Cell,
    every,
    invented,
    oddities,
    pairs,
    peers,
    singles,
    unfit,
)
from lossleuth.labs.lab.examined import is_located
from lossleuth.labs.lab.programs.planting import fault_of
from lossleuth.labs.lab.rows import Row, stale

FILE = "table.md"
NOT_RUN = "not run"


def table(rows: Mapping[str, Row]) -> str:
    """The page: a function of the rows, and of whether they are of the code as it is."""
    known = [cell for cell in every() if cell.id in rows]
    good = sum(rows[cell.id]["good"] for cell in known)
    faulty = [rows[cell.id] for cell in known if rows[cell.id]["wanted"]]
    located = sum(is_located(row) is True for row in faulty)
    seconds = sorted(rows[cell.id]["seconds"] for cell in known)
    lines = [
        "# Planted faults and what was said of them",
        "",
        "Written by `lossleuth lab` from `verdicts.jsonl`; do not edit. `✓`: the planted cause is",
        "proven (or benign, with a trial's number) and nobody else is blamed but its declared",
        "overlaps; `✗`: anything else, with what was said. `@`: within 2 lines of the planted one.",
        "",
        f"{good} of {len(known)} cells are right; {located} of {len(faulty)} faults are located.",
        _freshness(rows),
    ]
    if seconds:
        median = seconds[len(seconds) // 2]
        lines.append(f"Seconds to a verdict: median {median:.0f}, most {seconds[-1]:.0f}.")
    lines += ["", f"| fault | {' | '.join(HOSTS)} |", f"|---{'|---' * len(HOSTS)}|"]
    by_name = {(cell.host, cell.name): cell for cell in singles()}
    for name in (HEALTHY, "healthy_sgd", *TWINS, *(cause.id for cause in causes())):
        verdicts = [
            _verdict_text(by_name.get((host, name)), rows, _reason(name, host)) for host in HOSTS
        ]
        lines.append(f"| {_titled(name)} | {' | '.join(verdicts)} |")
    for title, cells in (
        ("Two at once (`plain`)", pairs()),
        ("Covered by no cause (`plain`): nobody may be blamed", invented()),
        ("Sound, and looking sick (`plain`): healthy, or benign with the reason", oddities()),
        (f"The comparison with other tools (`{PEERS}`)", peers()),
    ):
        lines += ["", f"## {title}", "", "| fault | verdict |", "|---|---|"]
        lines += [f"| {cell.name} | {_verdict_text(cell, rows, None)} |" for cell in cells]
    return "\n".join(lines) + "\n"


def write(folder: Path, rows: Mapping[str, Row]) -> None:
    """Write the page beside the rows."""
    with replace_file(folder / FILE) as stream:
        stream.write(table(rows).encode())


def _freshness(rows: Mapping[str, Row]) -> str:
    """How many rows are of the code as it is."""
    old = len(stale(rows))
    if not old:
        return "All rows were measured with the code as it is."
    return (
        f"{old} of {len(rows)} rows were measured with earlier code: `lossleuth lab` renews them."
    )


def _titled(name: str) -> str:
    if name.startswith(HEALTHY):
        return name
    fault = fault_of(name)
    dose = "" if fault.dose is None else f" ({fault.dose:g})"
    return f"`{name}`{dose}"


def _reason(name: str, host: str) -> str | None:
    return None if name.startswith(HEALTHY) else unfit(fault_of(name), host)


def _verdict_text(cell: Cell | None, rows: Mapping[str, Row], reason: str | None) -> str:
    if cell is None:
        return reason or "-"
    row = rows.get(cell.id)
    if row is None:
        return NOT_RUN
    mark = "✓" if row["good"] else "✗"
    said = []
    for found in row["causes"]:
        effect = found["effect"]
        nats = "" if effect is None or effect["nats"] is None else f" {effect['nats']:+.2f}"
        near = " @" if found["near"] else ""
        said.append(f"{found['id']} {found['status']}{nats}{near}")
    missing = [
        f"({name} {detail['status']})" for name, detail in row["details"].items() if not row["good"]
    ]
    return f"{mark} {', '.join([*said, *missing]) or row['status']}"
