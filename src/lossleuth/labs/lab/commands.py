"""What `lossleuth lab` does: examine cells one after the other, and keep what was said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lossleuth.catalogue import DOSES
from lossleuth.labs.lab import table
from lossleuth.labs.lab.cells import chosen
from lossleuth.labs.lab.doses import measured
from lossleuth.labs.lab.examined import examined, is_good
from lossleuth.labs.lab.rows import Row, is_stale, read, replaced, write

Print = Callable[[str], None]


def run_lab(
    folder: Path,
    hosts: Sequence[str],
    faults: Sequence[str],
    *,
    pairs: bool,
    invented: bool,
    doses: bool,
    again: bool,
    budget: float,
    show: Print,
) -> None:
    """Examine what was asked for; what is known of unchanged code is not examined again."""
    if doses:
        # Beside the causes, whose pages tell of it.
        measured(DOSES.parent, tuple(faults), budget=budget, show=show)
        return
    cells = chosen(tuple(hosts), tuple(faults), only_pairs=pairs, only_invented=invented)
    for cell in cells:
        known = read(folder).get(cell.id)
        if known is not None and not is_stale(cell, known) and not again:
            continue
        show(f"{cell.id}: {' '.join([cell.script.name, *cell.arguments])}")
        row = examined(cell, budget=budget)
        rows = replaced(folder, row)
        table.write(folder, rows)
        show(f"  {'right' if row['good'] else 'WRONG'}, {row['status']}: {_said(row)}")
    # What is right is judged by today's rule, also where the verdict is an older one.
    write(folder, [row | {"good": is_good(row)} for row in read(folder).values()])
    table.write(folder, read(folder))


def _said(row: Row) -> str:
    found = [f"{c['id']} {c['status']} at {c['where']}" for c in row["causes"]]
    return f"{', '.join(found) or 'nothing'} ({row['seconds']:.0f} s)"
