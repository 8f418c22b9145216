"""What one recorded window costs in bare steps, capture and every probe, for many programs.

Each program runs in a process of its own, watched, with one step recorded, and in another one
without us: a bare step. Times are processor time. `LOSSLEUTH_PROGRAMS=a,b` chooses programs,
`LOSSLEUTH_RESULTS=folder` keeps what was measured and found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench._long_tapes import PROGRAMS
from lossleuth.labs.lab.programs import planting

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "tests" / "programs"
LONGEST_SECONDS = 1800
# The step that is recorded. Those before it warm up.
RECORDED = 3
LONG = {name: [str(ROOT / "bench" / "_long_tapes.py"), name, "6"] for name in PROGRAMS}
KINDS = ("lstm", "gru", "convolution", "encoder", "linear_attention", "rotary", "gated", "experts")
FAMILIES = ("gpt2", "llama", "mixtral", "mamba", "t5")
LOOPS = (
    *("plain", "accumulation_by_tokens", "amp_plain", "checkpointed", "loader", "own_kernel"),
    *("two_optimizers", "manual_data", "manual_no_grad", "hf_trainer", "lightning_loop"),
)
COMMANDS: dict[str, list[str]] = (
    LONG
    | {name: [str(SCRIPTS / "own_models.py"), name] for name in KINDS}
    | {name: [str(SCRIPTS / f"{name}.py")] for name in LOOPS}
    | {name: [str(SCRIPTS / "hf_models.py"), name] for name in FAMILIES}
    | {"lab_plain": [str(planting.FOLDER / "plain.py"), "--steps", "6"]}
)
SHOWN_PROBES = 3


@dataclass(frozen=True)
class Cost:
    """A recorded window of a program, in processor seconds."""

    operations: int
    # A step that was not recorded.
    bare: float
    # What recording added to its step.
    capture: float
    probes: dict[str, float]
    # Everything that was done after the step, probes included.
    looking: float

    @property
    def steps(self) -> float:
        """Capture, replay and all probes, in bare steps."""
        return (self.capture + self.looking) / self.bare


def run(console: Console) -> None:
    """Measure and print the tables."""
    wanted = [name for name in os.environ.get("LOSSLEUTH_PROGRAMS", "").split(",") if name]
    costs: dict[str, Cost] = {}
    for name in wanted or COMMANDS:
        measured = cost_of(name, console)
        if measured is not None:
            costs[name] = measured
    console.print(by_program(costs))
    console.print(by_probe(costs))


def cost_of(name: str, console: Console) -> Cost | None:
    """Run one program; None, and a line that says why, where it could not be measured."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(os.environ.get("LOSSLEUTH_RESULTS", folder))
        try:
            told: dict[str, Any] = measured(name, str(RECORDED), kept / f"{name}.json")
            updates: list[float] = measured(name, "bare", kept / f"{name}.bare")
        except subprocess.CalledProcessError as error:
            console.print(f"{name}: {(error.stderr.strip().splitlines() or ['?'])[-1]}")
            return None
        except subprocess.TimeoutExpired:
            console.print(f"{name}: not done after {LONGEST_SECONDS} s")
            return None
    window = told["windows"].get(str(RECORDED))
    if window is None:
        console.print(f"{name}: step {RECORDED} was not recorded")
        return None
    steps = dict(told["steps"])
    bare = bare_step(steps, updates)
    capture = max(steps[RECORDED] - bare, 0.0)
    return Cost(window["operations"], bare, capture, window["probes"], window["seconds"])


def measured(name: str, how: str, result: Path) -> Any:
    """What a process has measured, now or before."""
    if not result.exists():
        subprocess.run(
            [sys.executable, "-m", "bench._timed_windows", str(result), how, *COMMANDS[name]],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=True,
        )
    return json.loads(result.read_text())


def bare_step(steps: dict[int, float], updates: list[float]) -> float:
    """The median, without the first step, which has in it everything that is done once."""
    # Programs with several optimizers make several updates in one step.
    each = round(len(updates) / len(steps))
    if not each:
        # Updates by hand, which only a watch sees.
        return float(np.median([s for step, s in steps.items() if step not in (0, RECORDED)]))
    ends = updates[each - 1 :: each]
    return float(np.median(np.diff(ends)))


def by_program(costs: dict[str, Cost]) -> Table:
    """The price of a window of each program, and where most of it goes."""
    table = Table(
        "program", "operations", "bare step, ms", "capture", "probes", "window", "dearest"
    )
    for name, cost in sorted(costs.items(), key=lambda item: -item[1].steps):
        dearest = sorted(cost.probes, key=lambda probe: -cost.probes[probe])[:SHOWN_PROBES]
        table.add_row(
            name,
            f"{cost.operations:,}",
            f"{1000 * cost.bare:.1f}",
            f"{cost.capture / cost.bare:.1f}",
            f"{cost.looking / cost.bare:.1f}",
            f"{cost.steps:.1f}",
            ", ".join(f"{probe} {cost.probes[probe] / cost.bare:.1f}" for probe in dearest),
        )
    totals = [cost.steps for cost in costs.values()]
    if totals:
        table.title = f"bare steps: median {np.median(totals):.1f}, worst {max(totals):.1f}"
    return table


def by_probe(costs: dict[str, Cost]) -> Table:
    """What each probe costs over all programs."""
    table = Table("bare steps", "median", "worst", "of", "processor seconds in all")
    parts: dict[str, dict[str, float]] = {"capture": {}, "before the probes": {}}
    for name, cost in costs.items():
        parts["capture"][name] = cost.capture
        parts["before the probes"][name] = cost.looking - sum(cost.probes.values())
        for probe, seconds in cost.probes.items():
            parts.setdefault(probe, {})[name] = seconds
    for part, seconds in sorted(parts.items(), key=lambda item: -sum(item[1].values())):
        steps = {name: taken / costs[name].bare for name, taken in seconds.items()}
        worst = max(steps, key=lambda name: steps[name], default=None)
        if worst is not None:
            median = f"{np.median(list(steps.values())):.2f}"
            total = f"{sum(seconds.values()):.2f}"
            table.add_row(part, median, f"{steps[worst]:.2f}", worst, total)
    return table
