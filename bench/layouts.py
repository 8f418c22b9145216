"""What is said of the same faults in losses of every layout: a table of layout and fault.

Each layout of `tests/support/loss_layouts.py` is trained for a moment, one step is recorded, all
probes run on it, and the causes that speak of supervision and leaks are judged.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lossleuth.catalogue import cause
from lossleuth.probes.run import run_probes
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import loss_layouts as layouts  # type: ignore[import-not-found]  # lies with the tests

CAUSES = (
    *("label_offset", "labels_all_masked", "pad_in_loss", "future_leak", "batch_leak"),
    "input_ignored",
)
# Options of a layout, and the cause that is right; none where it is sound.
PLANTED: dict[str, tuple[dict[str, Any], str | None]] = {
    "sound": ({}, None),
    "offset 0": ({"offset": 0}, "label_offset"),
    "offset 2": ({"offset": 2}, "label_offset"),
    "sees future": ({"sees_future": True}, "future_leak"),
    "mixes texts": ({"mixes_rows": True}, "batch_leak"),
    "ignores input": ({"ignores_input": True}, "input_ignored"),
    "pads count": ({"pads_count": True}, "pad_in_loss"),
}
STEPS = 40


def run(console: Console) -> None:
    """Print the table, and count."""
    table = Table("layout", *PLANTED)
    counts: Counter[str] = Counter()
    for layout in layouts.LAYOUTS:
        row = [said(layout, name) for name in PLANTED]
        counts.update(word.split(":")[0] for word in row)
        table.add_row(layout.__name__, *row)
    console.print(table)
    console.print(", ".join(f"{count} {word}" for word, count in counts.most_common()))


def said(layout: Any, planted: str) -> str:
    """What is said of a layout with a fault in it, in a word or two."""
    options, right = PLANTED[planted]
    if not applies(layout, planted):
        return "-"
    step = run_probes(layouts.step_of(layout, layouts.Options(**options), after=STEPS))
    evidence = Evidence(recorded=[step] * 3)
    found = {name: cause(name).judged(evidence).status for name in CAUSES}
    wrong = [name for name in blamed(found) if name != right]
    # A cause that needs padding is untested where there is none.
    open_ones = [n for n in CAUSES[3:] if found[n] is Status.UNTESTED and applies_to(n, layout)]
    if wrong:
        return f"WRONG: {', '.join(wrong)}"
    if right is not None and found[right] not in (Status.PROVEN, Status.SUSPECTED):
        return f"MISSED: {found[right].value}"
    if open_ones and right is None:
        return f"untested: {', '.join(open_ones)}"
    return "quiet" if right is None else found[right].value


def blamed(found: dict[str, Status]) -> Iterator[str]:
    """The causes that are proven or suspected."""
    return (n for n, status in found.items() if status in (Status.PROVEN, Status.SUSPECTED))


def applies(layout: Any, planted: str) -> bool:
    """Whether a fault can be planted there."""
    single = layout.__name__ in ("one_text", "flat_tokens")
    return (planted != "pads count" or layout in layouts.PADDED) and not (
        planted == "mixes texts" and single
    )


def applies_to(name: str, layout: Any) -> bool:
    """Whether a cause has a meaning there: one text has no neighbours."""
    return name != "batch_leak" or layout.__name__ not in ("one_text", "flat_tokens")
