"""Programs that others wrote: which faults are named, and what is wrongly sure.

`specimen_programs/open`, `held`, `unseen_a` and `unseen_b` have been looked at while lossleuth was
changed; `unseen_c` is neither opened nor run but to measure (2026-11-19). Each fault is harmful by
measurement: `key.tsv` has the losses. The schedule of the `pl_` and `plsmall_` programs has a fault
of its own that nobody planted: it is over after one step. `SPECIMENS=open`, `held` or `unseen` in
the environment chooses folders by the beginning of their names; `ONLY=word` those whose name has
that word. `JOBS=4` judges so many at a time, which shows whether the budget is kept on a loaded
machine; `LOSSLEUTH_RESULTS=folder` keeps the runs, and those that are there are not made again.
"""

from __future__ import annotations

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from lossleuth.examiner.request import Request
from lossleuth.examiner.saved_examination import SavedExamination
from lossleuth.run_directory import RunDirectory

BUDGET = Request.budget
FOLDER = Path(__file__).parent / "specimen_programs"
# The causes that are right answers to a fault, where they have other names than it.
ANSWERS = {
    "frozen_params": {"parameters_frozen"},
    # Left out of the optimizer, they ask for gradients all the same.
    "parameters_frozen": {"parameters_frozen", "unregistered_parameters"},
    # All but a template's last token.
    "labels_all_masked": {"labels_all_masked", "answer_delimiter_only"},
    "params_not_in_optimizer": {"unregistered_parameters"},
    "stale_update": {"stale_parameters", "update_undone"},
    "schedule_decays": {"schedule_too_fast"},
    "late_mask_dropped": {"future_leak"},
    "late_lr_jump": {"lr_too_high"},
    "late_batch_repeat": {"repeated_batch"},
    # Texts and times are mixed up in these: both leaks are there.
    "batch_leak": {"batch_leak", "future_leak"},
}


@dataclass(frozen=True)
class Specimen:
    """A script, and what is wrong with it."""

    path: Path
    fault: str

    @property
    def right(self) -> set[str]:
        """The causes that may be named; none if it is healthy."""
        return set() if self.fault == "healthy" else ANSWERS.get(self.fault, {self.fault})


@dataclass(frozen=True)
class Judged:
    """What the command said of a specimen, and when."""

    specimen: Specimen
    verdict: dict[str, Any]
    # From the command's start to its end.
    seconds: float
    # From the first training step to the first proof, where there was one on the way.
    first_proof: float | None

    @property
    def is_structural(self) -> bool:
        """Whether anything is proven without a trial."""
        proven = [c for c in self.verdict["causes"] if c["status"] == "proven"]
        return any(c.get("harm") is None for c in proven)

    @property
    def causes(self) -> list[tuple[str, str]]:
        """What is there, and how sure that is."""
        found = [(c["id"], c["status"]) for c in self.verdict["causes"]]
        return [(cause, status) for cause, status in found if status != "benign"]


def run(console: Console) -> None:
    """Judge every specimen, and count."""
    table = Table("specimen", "fault", "verdict", "causes", "seconds", "first proof", "")
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(os.environ.get("LOSSLEUTH_RESULTS", folder))
        with ThreadPoolExecutor(int(os.environ.get("JOBS", "1"))) as pool:
            found = list(pool.map(lambda s: judged(s, kept), specimens()))
    for one in found:
        outcome = outcome_of(one.specimen, one.verdict["status"], one.causes)
        counts["faulty" if one.specimen.right else "healthy", outcome] += 1
        table.add_row(
            str(one.specimen.path.relative_to(FOLDER)),
            one.specimen.fault,
            one.verdict["status"],
            ", ".join(f"{cause} {status}" for cause, status in one.causes),
            f"{one.seconds:.0f}",
            "" if one.first_proof is None else f"{one.first_proof:.1f}",
            outcome,
        )
    console.print(table)
    for (kind, outcome), count in sorted(counts.items()):
        console.print(f"{kind}: {outcome} {count}")
    _print_times(console, found)


def _print_times(console: Console, found: Sequence[Judged]) -> None:
    seconds = [one.seconds for one in found]
    late = sum(each > 1.1 * BUDGET for each in seconds)
    console.print(
        f"seconds: median {statistics.median(seconds):.0f}, most {max(seconds):.0f}; later than "
        f"the budget of {BUDGET:.0f} s and a tenth: {late} of {len(seconds)}"
    )
    proofs = [one.first_proof for one in found if one.first_proof is not None]
    silent = sum(one.first_proof is None and one.is_structural for one in found)
    if proofs:
        console.print(
            f"first proof, seconds after the first training step: median "
            f"{statistics.median(proofs):.1f}, most {max(proofs):.1f} of {len(proofs)}; "
            f"{silent} more were proven without a trial, and said at the end only"
        )


def specimens() -> Iterator[Specimen]:
    """Those that the environment asks for; all of them by default."""
    chosen, only = os.environ.get("SPECIMENS", ""), os.environ.get("ONLY", "")
    for folder in sorted(FOLDER.iterdir()):
        if folder.name.startswith(chosen):
            with (folder / "key.tsv").open(encoding="utf-8", newline="") as stream:
                for row in csv.DictReader(stream, delimiter="\t"):
                    if only in row["script"]:
                        yield Specimen(folder / row["script"], row["fault"])


def judged(specimen: Specimen, kept: Path) -> Judged:
    """The verdict on a script, by the command that a user would type."""
    path = specimen.path
    out = kept / path.parent.name / path.stem
    result = out.with_suffix(".json")
    if not result.exists():
        command = [sys.executable, "-m", "lossleuth", "run", "--json", "--out", str(out)]
        began = time.perf_counter()
        done = subprocess.run(
            [*command, path.name], cwd=path.parent, capture_output=True, text=True, check=False
        )
        refused = {"status": "refused", "causes": [], "why": done.stderr[-2000:]}
        verdict = refused if done.returncode == 2 else json.loads(done.stdout)
        seconds = time.perf_counter() - began
        result.parent.mkdir(parents=True, exist_ok=True)
        result.write_text(json.dumps({"verdict": verdict, "seconds": seconds}))
    known = json.loads(result.read_text())
    saved = SavedExamination.read(RunDirectory(out))
    proof = None if saved is None else saved.first_proof
    return Judged(specimen, known["verdict"], known["seconds"], proof)


def outcome_of(specimen: Specimen, status: str, causes: list[tuple[str, str]]) -> str:
    """What a verdict is worth, in a word or two."""
    proven = {cause for cause, how in causes if how == "proven"}
    if proven - specimen.right:
        return "wrongly proven"
    if not specimen.right:
        return {"healthy": "right", "suspected": "alarm"}.get(status, status)
    if causes and causes[0][0] in specimen.right:
        return "named" if causes[0][1] == "proven" else "suspected"
    return f"missed: {status}"
