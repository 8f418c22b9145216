"""What a trial costs beyond its steps, where the script loads for long before it trains.

A script reads and tokenises text for `SECONDS` (20 unless the environment says otherwise), then
trains a small model. Three changes are tried on three seeds, with runs that start at the script's
beginning, then with runs forked from where it has loaded everything. Start-up is all that is not
a step: waiting for the loaded script counts.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lossleuth.observe.launch.executor import Background, RunOutcome, RunSpec
from lossleuth.observe.launch.program import Program
from lossleuth.record.read import Record
from lossleuth.types.change import Change

SECONDS = float(os.environ.get("SECONDS_OF_LOADING", "20"))
STEPS, JOBS, SEEDS, SHIFT = 300, 2, 3, 1000
CHANGES = tuple(Change.of("scale_lr", factor=factor) for factor in (0.1, 3.0, 10.0))
# Optimizers and schedules that the script makes before it trains.
MADE = 1
SCRIPT = f"""
import random, time
import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
until, counts, text = time.process_time() + {SECONDS}, {{}}, []
while time.process_time() < until:
    word = "".join(random.choice("abcdefgh") for _ in range(5))
    counts[word] = counts.get(word, 0) + 1
    if len(text) < 20_000:
        text += [ord(letter) - 97 for letter in word]
text = torch.tensor(text)
model = nn.Sequential(nn.Embedding(8, 128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range({STEPS}):
    starts = torch.randint(0, len(text) - 65, (64,))
    rows = torch.stack([text[s : s + 65] for s in starts])
    loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(console: Console) -> None:
    """Make the same trials in both ways, and print what each took."""
    table = Table(
        "runs", "went on from there", "seconds of one, median", "in steps", "beside", "all"
    )
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "own", "train.py")
        script.parent.mkdir()
        script.write_text(SCRIPT)
        here = Path.cwd()
        os.chdir(script.parent)
        try:
            for name, after in (("from the beginning", None), ("from the loaded script", MADE)):
                outcomes, seconds = tried(script, Path(folder, name), after)
                own = [in_steps(outcome) for outcome in outcomes]
                # Of each run the share of the wall time that it had to itself.
                beside = JOBS * seconds / sum(own) - 1
                table.add_row(
                    f"{len(outcomes)} {name}",
                    str(sum(outcome.went_on for outcome in outcomes)),
                    f"{statistics.median(o.seconds for o in outcomes):.1f}",
                    f"{statistics.median(own):.1f}",
                    f"{beside:.0%}",
                    f"{seconds:.0f}",
                )
        finally:
            os.chdir(here)
    console.print(table)
    console.print(
        f"A script that loads for {SECONDS:.0f} s, {STEPS} steps, {JOBS} at a time; beside: all "
        "time of the runs that is no step, as a share of the steps' time"
    )


def tried(script: Path, folder: Path, after: int | None) -> tuple[list[RunOutcome], float]:
    """All runs of the trials, and the seconds that they took together."""
    background = Background(Program(script), JOBS, forks=True)
    keys = [(seed, changes) for changes in ((), *((c,) for c in CHANGES)) for seed in range(SEEDS)]
    try:
        # As in an examination: what the observed run has imported is there for the others.
        background.run([RunSpec(folder / "observed", STEPS, 600.0)])
        began = time.perf_counter()
        plans = [
            RunSpec(
                folder / f"{i}",
                STEPS,
                600.0,
                seed_shift=SHIFT * seed,
                changes=changes,
                forked_after=after,
            )
            for i, (seed, changes) in enumerate(keys)
        ]
        return background.run(plans), time.perf_counter() - began
    finally:
        background.close()


def in_steps(outcome: RunOutcome) -> float:
    """Seconds that a run spent in its training steps."""
    with Record.open(outcome.plan.directory) as record:
        return float(sum(record.series("seconds")))
