"""What `lossleuth lab` does: examine cells, and keep what was said of each as soon as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
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
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(examined, cell, budget=budget): cell for cell in wanted}
        try:
            for done in as_completed(waiting):
                cell, row = waiting[done], done.result()
                table.write(folder, replaced(folder, row))
                show(f"{cell.id}: {' '.join([cell.script.name, *cell.arguments])}")
                show(f"  {'right' if row['good'] else 'WRONG'}, {row['status']}: {_said(row)}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    # What is right is judged by today's rule, also where the verdict is an older one.
    write(folder, [row | {"good": is_good(row)} for row in read(folder).values()])
    table.write(folder, read(folder))


def _said(row: Row) -> str:
    found = [f"{c['id']} {c['status']} at {c['where']}" for c in row["causes"]]
    return f"{', '.join(found) or 'nothing'} ({row['seconds']:.0f} s)"
