"""Programs that others wrote: which faults are named, and what is wrongly sure.

`specimen_programs/open` may be looked at while lossleuth is changed; `held` is run to measure and
not opened. Each fault is harmful by measurement: `key.tsv` has the losses. `SPECIMENS=open` or
`held` in the environment chooses one; `ONLY=word` those whose name has that word.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "specimen_programs"
# The causes that are right answers to a fault, where they have other names than it.
ANSWERS = {
    "frozen_params": {"parameters_frozen"},
    "params_not_in_optimizer": {"unregistered_parameters"},
    "stale_update": {"stale_parameters"},
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


def run(console: Console) -> None:
    """Judge every specimen, and count."""
    table = Table("specimen", "fault", "verdict", "causes", "seconds", "")
    counts: Counter[tuple[str, str]] = Counter()
    for specimen in specimens():
        verdict = judged(specimen.path)
        causes = [(c["id"], c["status"]) for c in verdict["causes"] if c["status"] != "benign"]
        outcome = outcome_of(specimen, verdict["status"], causes)
        counts["healthy" if not specimen.right else "faulty", outcome] += 1
        named = ", ".join(f"{cause} {status}" for cause, status in causes)
        seconds = f"{verdict['seconds']:.0f}"
        name = str(specimen.path.relative_to(FOLDER))
        table.add_row(name, specimen.fault, verdict["status"], named, seconds, outcome)
    console.print(table)
    for (kind, outcome), count in sorted(counts.items()):
        console.print(f"{kind}: {outcome} {count}")


def specimens() -> Iterator[Specimen]:
    """Those that the environment asks for; all of them by default."""
    chosen, only = os.environ.get("SPECIMENS"), os.environ.get("ONLY", "")
    for folder in sorted(FOLDER.iterdir()):
        if chosen in (None, folder.name):
            with (folder / "key.tsv").open(encoding="utf-8", newline="") as stream:
                for row in csv.DictReader(stream, delimiter="\t"):
                    if only in row["script"]:
                        yield Specimen(folder / row["script"], row["fault"])


def judged(path: Path) -> dict[str, Any]:
    """The verdict on a script, by the command that a user would type."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "lossleuth", "run", "--json", "--out", f"{out}/run"]
        done = subprocess.run(
            [*command, path.name], cwd=path.parent, capture_output=True, text=True, check=False
        )
    if done.returncode == 2:
        return {"status": "refused", "causes": [], "seconds": 0.0}
    return json.loads(done.stdout)  # type: ignore[no-any-return]  # verdict.json


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
