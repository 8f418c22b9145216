"""How far healthy programs are behind the reference on their own batches, and faulty ones.

The bound of `judge/yardstick.py` comes from the healthy ones. `YARDSTICK=open`, `lab`, `programs`
or `held` chooses a group (all but `held` by default: those are run to measure and not opened);
`ONLY=word` programs whose name has that word, `HEALTHY=1` healthy ones. `SEEN=0.35` compares as if
so much of each run had been seen. `LOSSLEUTH_RESULTS=folder` keeps the runs, and those that are
there are not made again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.specimens import FOLDER, specimens
from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.examiner.measuring import yardstick_of
from lossleuth.examiner.observing import Observing
from lossleuth.examiner.request import Budget, Request
from lossleuth.judge.yardstick import Comparison, compared
from lossleuth.labs.lab.cells import INVENTED, every
from lossleuth.observe.launch.executor import Background
from lossleuth.observe.launch.program import Program
from lossleuth.run_directory import BATCHES, RunDirectory
from lossleuth.types.errors import BadInput
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Ending
from lossleuth.types.plain import from_plain, to_plain
from lossleuth.types.yardstick import Yardstick

ROOT = Path(__file__).parents[1]
GROUPS = ("open", "lab", "programs")
# More than the examiner has, so that the machine's load makes no reference smaller: the larger it
# is, the further ahead.
SECONDS = 90.0


@dataclass(frozen=True)
class Case:
    """A program, and whether anything is wrong with it."""

    group: str
    name: str
    program: Program
    healthy: bool


@dataclass(frozen=True)
class Found:
    """What came of one phase of a program: the comparison, or why there is none."""

    case: Case
    phase: int
    comparison: Comparison | str | None


def run(console: Console) -> None:
    """Compare every program with its reference."""
    seen = float(os.environ.get("SEEN", "1"))
    found: list[Found] = []
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(os.environ.get("LOSSLEUTH_RESULTS", folder)).resolve()
        for case in cases():
            of_case = list(compare(case, kept / case.group / case.name, seen))
            found += of_case
            for one in of_case:
                console.print(sentence(one), soft_wrap=True)
    console.print(table(found))


def cases() -> Iterator[Case]:
    """Those that the environment asks for."""
    chosen, only = os.environ.get("YARDSTICK"), os.environ.get("ONLY", "")
    for case in every_case():
        wanted = case.group == chosen if chosen else case.group in GROUPS
        wanted = wanted and (case.healthy or not os.environ.get("HEALTHY"))
        if wanted and only in case.name:
            yield case


def every_case() -> Iterator[Case]:
    """All programs."""
    for specimen in specimens():
        group = specimen.path.parent.relative_to(FOLDER).as_posix()
        yield Case(group, specimen.path.stem, Program(specimen.path), not specimen.right)
    for cell in every():
        healthy = not cell.wanted and not set(cell.faults) & set(INVENTED)
        program = Program(cell.script, tuple(cell.arguments))
        yield Case("lab", cell.id.replace("/", "__"), program, healthy)
    for script in sorted((ROOT / "tests" / "programs").glob("*.py")):
        yield Case("programs", script.stem, Program(script), healthy=True)


def compare(case: Case, out: Path, seen: float) -> Iterator[Found]:
    """Observe the program, train the reference, compare: phase by phase."""
    try:
        evidence = observed(case, out)
    except BadInput as reason:
        yield Found(case, 1, str(reason))
        return
    phases = [evidence.of_phase(phase) for phase in evidence.phases] or [evidence]
    for number, phase in enumerate(phases, 1):
        part = beginning(phase, seen)
        result = out / f"yardstick{number}{'' if seen == 1 else f'-{seen:g}'}.json"
        if not result.exists():
            measured = yardstick_of(part, out / "observed" / BATCHES, SECONDS, lambda _: None)
            result.write_text(json.dumps(None if measured is None else to_plain(measured)))
        stored = json.loads(result.read_text())
        yardstick = None if stored is None else from_plain(Yardstick, stored)
        yield Found(case, number, compared(replace(part, yardstick=yardstick)))


def observed(case: Case, out: Path) -> Evidence:
    """The first look at the program."""
    look = RunDirectory(out).observed
    if not (look / BATCHES).exists() and not (look / "record.log").exists():
        with chdir(case.program.script.parent):
            executor = Background(case.program, 1)
            try:
                request = Request(case.name, out)
                Observing(executor, request, Budget(request.budget), lambda _: None).first()
            finally:
                executor.close()
    return evidence_of(look)


def beginning(evidence: Evidence, share: float) -> Evidence:
    """As if the run had been seen for this share of its steps."""
    end = share * (evidence.steps[-1].step + 1) if evidence.steps else 0
    return replace(
        evidence,
        ending=evidence.ending if share == 1 else Ending(how="stopped"),
        steps=[step for step in evidence.steps if step.step < end],
        recorded=[step for step in evidence.recorded if step.step < end],
    )


def sentence(found: Found) -> str:
    """What came of it, in a line."""
    one, case = found.comparison, found.case
    name = f"{case.group}/{case.name} {found.phase} {'healthy' if case.healthy else 'faulty'}"
    if not isinstance(one, Comparison):
        return f"{name}: {one}"
    early = " (early)" if one.early else ""
    mixture = "" if one.mixture is None else f"{one.mixture:.3f}"
    return (
        f"{name}: run {one.run:.3f}, reference {one.reference:.3f} with {one.parameters} of "
        f"{one.trained} parameters at {one.rate:g}, {one.steps} steps{early}, n-grams {mixture}, "
        f"behind {one.run - one.reference:.3f} of allowed {one.allowed:.3f}, "
        f"{one.share_behind:.2f} of what it learnt"
    )


def table(found: Sequence[Found]) -> Table:
    """Those that could be compared, the furthest behind first."""
    drawn = Table("program", "", "run", "reference", "n-grams", "behind", "share", "")
    known = [(one, one.comparison) for one in found if isinstance(one.comparison, Comparison)]
    for one, comparison in sorted(known, key=lambda pair: -pair[1].share_behind):
        mixture = comparison.mixture
        drawn.add_row(
            f"{one.case.group}/{one.case.name} {one.phase}",
            "healthy" if one.case.healthy else "faulty",
            f"{comparison.run:.2f}",
            f"{comparison.reference:.2f}",
            "" if mixture is None else f"{mixture:.2f}",
            f"{comparison.run - comparison.reference:+.2f}",
            f"{comparison.share_behind:.2f}",
            "beyond the bound" if comparison.is_behind else "",
        )
    return drawn
