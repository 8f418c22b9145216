"""Healthy programs of every make, each with two steps on tape: what is measured of them.

    python tests/observe/healthy_tapes.py [NAME]...

prints a table: the largest error of a gradient with its floor, what leaks, where the targets are,
what is found, and whether the program printed what it prints without us.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lossleuth.findings.data import Alignment
from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.model import Leaks
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.labs.lab.programs import planting
from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import recorded_steps

PROGRAMS = Path(__file__).parents[1] / "programs"
# What a library prints of its own speed differs from run to run without us, too.
TIMES = re.compile(r"'(train_runtime|train_\w+_per_second)': '?[\d.e-]+'?")
STEPS = (1, 3)
# In shares of the spread of the logits.
ROUNDING = 1e-15
# As far as a gradient may be from the truth in float32, and in bfloat16.
LIMIT, COARSE_LIMIT = 1e-5, 1e-2
COARSE = ("amp_plain",)
# Where the rows of an expert are others, its product may be cut up in another way: rounding.
ROUTED = ("experts",)
LOOPS = (
    *("plain", "accumulation_by_tokens", "amp_plain", "checkpointed", "compiled", "loader"),
    *("two_optimizers", "manual_data", "manual_no_grad", "hf_trainer", "lightning_loop"),
    *("accelerated", "peft_lora", "trl_sft", "x_transformer"),
)
FAMILIES = (
    *("gpt2", "llama", "mistral", "mixtral", "qwen3", "gemma", "phi", "gpt_neox", "opt", "bloom"),
    *("mamba", "t5"),
)
KINDS = (
    *("lstm", "gru", "convolution", "encoder", "linear_attention", "rotary", "gated", "experts"),
)
HOSTS = ("plain", "hf_loop", "lightning_trainer")

COMMANDS: dict[str, list[str]] = (
    {name: [str(PROGRAMS / f"{name}.py")] for name in LOOPS}
    | {name: [str(PROGRAMS / "hf_models.py"), name] for name in FAMILIES}
    | {name: [str(PROGRAMS / "own_models.py"), name] for name in KINDS}
    | {f"lab_{host}": [str(planting.FOLDER / f"{host}.py"), "--steps", "6"] for host in HOSTS}
)


@dataclass(frozen=True)
class Seen:
    """What two recorded steps of a program show; the worst of all backward passes."""

    name: str
    # With its floor, of the pass in which it is largest.
    error: float
    floor: float
    # Of the pass in which that is largest.
    over_floor: float
    # Reasons for which a gradient could not be judged.
    untested: tuple[str, ...]
    # Of the future and of other rows, in each step.
    leaks: tuple[tuple[float | None, float | None], ...]
    offsets: tuple[int | None, ...]
    findings: tuple[str, ...]
    is_same: bool

    @property
    def faults(self) -> list[str]:
        """All that ought to be otherwise; nothing where all is well."""
        limit = COARSE_LIMIT if self.name in COARSE else LIMIT
        leak_limit = ROUNDING if self.name in ROUTED else 0.0
        largest = [max(map(abs, leak)) for leak in self.leaks if None not in leak]
        leaks = len(largest) < len(self.leaks) or max(largest, default=0.0) > leak_limit
        wrong = {
            f"untested: {self.untested}": bool(self.untested),
            f"error {self.error:.1e}": not self.error < limit,
            f"{self.over_floor:.1f} times the floor": not self.over_floor < 10,
            f"leaks {self.leaks}": leaks,
            f"offsets {self.offsets}": any(offset != 1 for offset in self.offsets),
            f"findings {self.findings}": self.findings != (),
            "another output than without us": not self.is_same,
        }
        return [words for words, is_wrong in wrong.items() if is_wrong]


def seen(name: str, folder: Path) -> Seen:
    """Run a program without us, then with two steps on tape."""
    bare = output_of(COMMANDS[name], folder)
    ours, taped = tape_of(COMMANDS[name], folder)
    verdict = json.loads((folder / "run" / "verdict.json").read_text())
    judged = [truth for found in taped for truth in found.all(GradientTruth)]
    leaks = [leaks for found in taped for leaks in found.all(Leaks)]
    worst = max(judged, key=lambda truth: truth.error)
    return Seen(
        name,
        worst.error,
        worst.floor,
        max(truth.error / truth.floor for truth in judged),
        tuple(sorted({reason for found in taped for reason in reasons(found)})),
        tuple((leak.future, leak.batch) for leak in leaks),
        tuple(aligned.offset for found in taped for aligned in found.all(Alignment)),
        tuple(f"{cause['id']} {cause['status']}" for cause in verdict["causes"]),
        TIMES.sub("", bare) == TIMES.sub("", ours),
    )


def reasons(found: RecordedStep) -> list[str]:
    """Why gradients of a step, or parts of them, could not be judged."""
    rows = [row for truth in found.all(GradientTruth) for row in truth.parameters]
    return [*found.reasons(GradientTruth), *(row.untested for row in rows if row.untested)]


def tape_of(command: list[str], folder: Path) -> tuple[str, list[RecordedStep]]:
    """What a program prints when it is watched, and what its recorded steps show."""
    tape = [word for step in STEPS for word in ("--tape", str(step))]
    printed = output_of(["-m", "lossleuth", "watch", "--out", "run", *tape, *command], folder)
    with Record.open(folder / "run") as record:
        return printed, recorded_steps(record, ("tape",))


def output_of(command: list[str], folder: Path) -> str:
    """What a program prints; a failure of its own or of ours is an error."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "internal error" not in ended.stderr, ended.stderr
    return ended.stdout


def main(wanted: list[str]) -> int:
    """Print the table; 1 where something ought to be otherwise."""
    titles = ("program", "error", "floor", "leaks", "offsets", "findings", "same output", "verdict")
    table = Table(*titles)
    bad = 0
    for name in wanted or COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = seen(name, Path(folder))
            except (AssertionError, ValueError) as error:
                told = (str(error).strip().splitlines() or ["?"])[-1]
                table.add_row(name, *[""] * 6, told)
                bad += 1
                continue
        told = "; ".join(found.faults) or "as it should be"
        bad += bool(found.faults)
        leaks, offsets = (sorted(set(map(str, v))) for v in (found.leaks, found.offsets))
        table.add_row(
            *(name, f"{found.error:.1e}", f"{found.floor:.1e}", " ".join(leaks)),
            *(" ".join(offsets), " ".join(found.findings) or "none", str(found.is_same), told),
        )
        print(name, told, file=sys.stderr, flush=True)
    Console(width=200).print(table)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
