"""How much of a run is seen, and at what price: few slow steps, and many quick ones.

Each script is run bare, judged by `lossleuth run --no-trials`, and run bare again: the difference
is what watching, recorded steps, judging and the report cost together.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import recorded_steps
from lossleuth.run_directory import RunDirectory


@dataclass(frozen=True)
class Kind:
    """A script by the number of its steps, and by what one costs."""

    name: str
    steps: int
    width: int
    rows: int


KINDS = (Kind("30 slow steps", 30, 1536, 256), Kind("5 000 quick steps", 5000, 32, 4))
SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
V, T, WIDTH, ROWS = 64, 32, {width}, {rows}
table = torch.randn(V, V).mul(2).softmax(1)
text = torch.zeros(50_000, dtype=torch.long)
chances = torch.rand(len(text))
edges = table.cumsum(1)
for i in range(1, len(text)):
    text[i] = torch.searchsorted(edges[text[i - 1]], chances[i]).clamp(max=V - 1)
model = nn.Sequential(
    nn.Embedding(V, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, V)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range({steps}):
    starts = torch.randint(0, len(text) - T - 1, (ROWS,))
    rows = torch.stack([text[s : s + T + 1] for s in starts])
    loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def run(console: Console) -> None:
    """Run both scripts in turn, and print what was seen of them."""
    table = Table("script", "steps seen", "recorded", "which", "bare s", "judged s", "bare again")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "train.py")
            script.write_text(SCRIPT.format(width=kind.width, rows=kind.rows, steps=kind.steps))
            bare = seconds_of(script)
            out = Path(folder, "run")
            command = ("-m", "lossleuth", "run", "--no-trials", "--out", str(out))
            observed = seconds_of(script, *command)
            again = seconds_of(script)
            with Record.open(RunDirectory(out).observed) as record:
                steps = len(record.series("seconds"))
                recorded = [step.step for step in recorded_steps(record, ("tape",))]
            which = ", ".join(map(str, recorded))
            times = (f"{x:.1f}" for x in (bare, observed, again))
            table.add_row(kind.name, str(steps), str(len(recorded)), which, *times)
    console.print(table)


def seconds_of(script: Path, *options: str) -> float:
    """Run a script to its end, as it is or by a command; how long that takes."""
    began = time.perf_counter()
    command = [sys.executable, *options, script.name]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, cwd=script.parent, env=os.environ | {}, check=False, **quiet)
    return time.perf_counter() - began
