"""Seconds from start to verdict, and how many of them the user's own script takes.

The programs are the founding cases and the lab's hosts with and without faults: 0.1 to 1 million
parameters or less. Each is examined by `lossleuth run` as a user would.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lossleuth.examiner.saved_examination import SavedExamination
from lossleuth.labs import cases
from lossleuth.labs.lab.programs.planting import FOLDER as LAB
from lossleuth.record.read import Record
from lossleuth.run_directory import RunDirectory

CASES = Path(cases.__path__[0])
PROGRAMS: dict[str, list[str]] = {
    **{
        f"case {name}": [str(CASES / f"{name}.py")]
        for name in ("rising_loss", "constant_loss", "always_clipped", "kahan", "run_three")
    },
    **{f"{host}, healthy": [str(LAB / f"{host}.py")] for host in ("plain", "hf_loop")},
    **{
        f"plain, {fault}": [str(LAB / "plain.py"), "--fault", fault]
        for fault in (
            *("label_offset", "graph_cut", "lr_too_high", "schedule_too_fast"),
            *("never_steps", "wrong_backward", "update_swallowed"),
        )
    },
}


def run(console: Console) -> None:
    """Examine each program once and print the times."""
    table = Table("program", "verdict", "seconds", "in the script", "first proof")
    all_seconds, proofs = [], []
    for name, command in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder:
            status, seconds, own = _examined(command, Path(folder) / "run")
            proof = _first_proof(Path(folder) / "run")
        all_seconds.append(seconds)
        proofs += [] if proof is None else [proof]
        share, early = f"{own / seconds:.0%}", "" if proof is None else f"{proof:.1f}"
        table.add_row(name, status, f"{seconds:.0f}", share, early)
        console.print(
            f"{name}: {status} after {seconds:.0f} s, {share} in the script, "
            f"first proof {early or 'not'} on the way"
        )
    console.print(table)
    if proofs:
        console.print(
            f"first proof, in seconds after the first training step: median "
            f"{statistics.median(proofs):.1f}, worst {max(proofs):.1f} of {len(proofs)}"
        )
    console.print(
        f"median {statistics.median(all_seconds):.0f} s, worst {max(all_seconds):.0f} s; runs side "
        "by side count one by one, so that the share may be above 100 %"
    )


def _examined(command: list[str], out: Path) -> tuple[str, float, float]:
    began = time.perf_counter()
    said = subprocess.run(
        [sys.executable, "-m", "lossleuth", "run", "--json", "--out", str(out), *command],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    verdict = json.loads(said.stdout)
    named = [c["id"] for c in verdict["causes"] if c["status"] == verdict["status"]]
    return f"{verdict['status']} {', '.join(named)}".strip(), seconds, _in_script(out)


def _first_proof(out: Path) -> float | None:
    """Seconds from the first training step to the first proof, if there was one on the way."""
    saved = SavedExamination.read(RunDirectory(out))
    return None if saved is None else saved.first_proof


def _in_script(out: Path) -> float:
    """Seconds of all recorded steps, without what we have spent in them."""
    total = 0.0
    for log in out.rglob("record.log"):
        with Record.open(log.parent) as record:
            if "seconds" in record.scalar_names:
                total += float(sum(record.series("seconds")))
            total -= float((record.ended or {}).get("own_seconds", 0.0))
    return max(0.0, total)
