"""What `lossleuth lab` does: examine cells, and keep what was said of each as soon as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from lossleuth.catalogue import DOSES
from lossleuth.labs.lab import table
from lossleuth.labs.lab.cells import Cell, chosen
from lossleuth.labs.lab.doses import measured
from lossleuth.labs.lab.examined import examined, is_good
from lossleuth.labs.lab.rows import Row, is_stale, read, replaced, write
from lossleuth.process_tree import ended_in_order

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
    jobs: int = 1,
) -> None:
    """Examine what was asked for; what is known of unchanged code is not examined again.

    So many cells are examined at a time; trials of one keep two cores busy by themselves.
    """
    if doses:
        # Beside the causes, whose pages tell of it.
        measured(DOSES.parent, tuple(faults), budget=budget, show=show)
        return
    cells = chosen(tuple(hosts), tuple(faults), only_pairs=pairs, only_invented=invented)
    known = read(folder)
    wanted = [c for c in cells if again or c.id not in known or is_stale(c, known[c.id])]
    for cell, row in _rows_of(wanted, budget, jobs):
        table.write(folder, replaced(folder, row))
        show(f"{cell.id}: {' '.join([cell.script.name, *cell.arguments])}")
        show(f"  {'right' if row['good'] else 'WRONG'}, {row['status']}: {_said(row)}")
    # What is right is judged by today's rule, also where the verdict is an older one.
    write(folder, [row | {"good": is_good(row)} for row in read(folder).values()])
    table.write(folder, read(folder))


def _rows_of(cells: Sequence[Cell], budget: float, jobs: int) -> Iterator[tuple[Cell, Row]]:
    """What is said of each cell, as it comes; of several at a time in no order."""
    if jobs == 1:
        # Here, where an interruption ends the run at once.
        yield from ((cell, examined(cell, budget=budget)) for cell in cells)
        return
    with ended_in_order(), ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(examined, cell, budget=budget): cell for cell in cells}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            # What is under way comes to its end; nothing else begins.
            pool.shutdown(cancel_futures=True)


def _said(row: Row) -> str:
    found = [f"{c['id']} {c['status']} at {c['where']}" for c in row["causes"]]
    return f"{', '.join(found) or 'nothing'} ({row['seconds']:.0f} s)"
