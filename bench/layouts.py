"""What is said of the same faults in losses of every layout: tables of layout, fault and cause.

Each layout of `tests/support/every_layout.py` is trained for a moment, one step is recorded, all
probes run on it, and the causes that speak of supervision and leaks are judged.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from lossleuth.catalogue import cause
from lossleuth.probes.run import run_probes
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
import every_layout as layouts  # type: ignore[import-not-found]  # lies with the tests
import loss_layouts  # type: ignore[import-not-found]  # lies with the tests

CAUSES = (
    *("label_offset", "labels_all_masked", "pad_in_loss", "future_leak", "batch_leak"),
    "input_ignored",
)
BLAMED = (Status.PROVEN, Status.SUSPECTED)
STEPS = 40

Found = dict[str, Status]


def run(console: Console) -> None:
    """Print what is said of each fault, then how each cause did, and count."""
    # Tensors are tiny: threads would only wait for each other.
    torch.set_num_threads(1)
    by_fault, by_cause = table(layouts.FAULTS), table(CAUSES)
    words, answers = Counter[str](), Counter[str]()
    for layout in layouts.LAYOUTS:
        found = {name: judged(layout, name) for name in layouts.FAULTS if applies(layout, name)}
        row = [said(layout, name, found[name]) if name in found else "-" for name in layouts.FAULTS]
        words.update(word.split(":")[0] for word in row)
        by_fault.add_row(layout.__name__, *row)
        cells = [list(answered(layout, name, found)) for name in CAUSES]
        answers.update(answer for cell in cells for _, answer in cell)
        by_cause.add_row(layout.__name__, *(counted(cell) for cell in cells))
    console.print(by_fault)
    console.print(", ".join(f"{count} {word}" for word, count in words.most_common()))
    console.print(by_cause)
    console.print(", ".join(f"{count} {answer}" for answer, count in answers.most_common()))


def table(columns: Iterable[str]) -> Table:
    """One with a row for each layout, whose name stays whole."""
    made = Table()
    made.add_column("layout", no_wrap=True)
    for column in columns:
        made.add_column(column)
    return made


def judged(layout: Any, planted: str) -> Found:
    """What each cause says of a layout with a fault in it."""
    options = layouts.FAULTS[planted].options
    step = run_probes(loss_layouts.step_of(layout, options, after=STEPS))
    evidence = Evidence(recorded=[step] * 3)
    return {name: cause(name).judged(evidence).status for name in CAUSES}


def said(layout: Any, planted: str, found: Found) -> str:
    """The same in a word or two."""
    right = layouts.FAULTS[planted].cause
    wrong = [name for name, status in found.items() if status in BLAMED and name != right]
    if wrong:
        return f"WRONG: {', '.join(wrong)}"
    if right is not None:
        return found[right].value if found[right] in BLAMED else f"MISSED: {found[right].value}"
    open_ones = [n for n in CAUSES if found[n] is Status.UNTESTED and has_meaning(n, layout)]
    return f"untested: {', '.join(open_ones)}" if open_ones else "quiet"


def answered(layout: Any, name: str, found: dict[str, Found]) -> Iterator[tuple[str, str]]:
    """Whether a cause was right about each fault of a layout: the fault, and a word."""
    for planted, statuses in found.items():
        is_right = name == layouts.FAULTS[planted].cause
        if not has_meaning(name, layout):
            continue
        if statuses[name] is Status.UNTESTED:
            # A fault may take away what another cause looks at, such as all targets.
            yield planted, "wrong" if is_right else "untested"
        else:
            yield planted, "right" if (statuses[name] in BLAMED) == is_right else "wrong"


def counted(cell: list[tuple[str, str]]) -> str:
    """How often a cause was right, and of which faults it was not."""
    by_answer = defaultdict[str, list[str]](list)
    for planted, answer in cell:
        by_answer[answer].append(planted)
    parts = [f"{len(by_answer['right'])} right"] if by_answer["right"] else []
    for word in ("wrong", "untested"):
        if by_answer[word]:
            parts.append(f"{word}: {', '.join(by_answer[word])}")
    return "; ".join(parts) or "-"


def applies(layout: Any, planted: str) -> bool:
    """Whether a fault can be planted there."""
    return layout in layouts.FAULTS[planted].layouts


def has_meaning(name: str, layout: Any) -> bool:
    """Whether some fault could make a cause right there: one text has no neighbours."""
    return any(fault.cause == name and layout in fault.layouts for fault in layouts.FAULTS.values())
