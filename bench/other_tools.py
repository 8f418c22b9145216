"""Five planted faults, and what a user's other choices say of them.

`torch.autograd.gradcheck` on the loss, `set_detect_anomaly`, and learning one batch by heart, as
one would do by hand; then lossleuth. The model and its faults are those of the lab's `peers`.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call

import lossleuth
from bench.gradchecking import passes
from lossleuth.labs.lab.cells import Cell, peers
from lossleuth.labs.lab.programs import peers as host
from lossleuth.labs.lab.programs import plain
from lossleuth.labs.lab.programs.planting import Planted, fault_of, planted
from lossleuth.labs.lab.programs.training_parts import Parts

OVERFIT_STEPS = 300
ANOMALY_STEPS = 30


def run(console: Console) -> None:
    """Ask every tool about every program and print what it says."""
    torch.set_num_threads(1)
    table = Table("program", "gradcheck", "detect_anomaly", "one batch by heart", "lossleuth")
    for cell in peers():
        parts = _parts(cell)
        row = [_gradcheck(parts), _anomaly(parts), _overfit(parts), _lossleuth(cell)]
        table.add_row(cell.name, *row)
        console.print(f"{cell.name}: {'; '.join(row)}")
    console.print(table)


def _parts(cell: Cell) -> Parts:
    chosen = [Planted(fault_of(name), cell.dose) for name in cell.faults]
    return planted(host.healthy(), chosen)


class _Loss(nn.Module):
    """The loss of one batch as a function of all parameters."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = plain.made(parts).double()
        self._parts = parts
        self._batch = next(parts.batches(parts.settings))

    def forward(self) -> Tensor:
        """On its one batch."""
        scores = self._parts.forward(self.model, self._batch.inputs_BT)
        return self._parts.loss(scores, self._batch.targets_BT)


def _gradcheck(parts: Parts) -> str:
    loss = _Loss(parts)
    names = [name for name, _ in loss.named_parameters()]
    weights = [p.detach().clone().requires_grad_() for p in loss.parameters()]

    def value(*given: Tensor) -> Tensor:
        found: Tensor = functional_call(loss, dict(zip(names, given, strict=True)), ())
        return found

    return "pass" if passes(value, weights) else "fail"


def _anomaly(parts: Parts) -> str:
    with warnings.catch_warnings(record=True) as said, torch.autograd.detect_anomaly():
        before = len(said)
        try:
            _trained(parts, ANOMALY_STEPS)
        except RuntimeError as error:
            return str(error)[:40]
    return "silent" if len(said) <= before else str(said[-1].message)[:40]


def _overfit(parts: Parts) -> str:
    batch = next(parts.batches(parts.settings))
    frozen = replace(parts, batches=lambda _: iter(repeat(batch)))
    return f"{_trained(frozen, OVERFIT_STEPS)[-1]:.2f}"


def _lossleuth(cell: Cell) -> str:
    with tempfile.TemporaryDirectory() as folder:
        verdict = lossleuth.run(cell.script, cell.arguments, out=Path(folder) / "run")
    return f"{verdict.status} {', '.join(verdict.ranked)}".strip()


def _trained(parts: Parts, steps: int) -> list[float]:
    with redirect_stdout(io.StringIO()):
        return plain.train(replace(parts, settings=replace(parts.settings, steps=steps)))
