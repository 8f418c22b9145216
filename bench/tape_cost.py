"""What a recorded step costs: capture, truth, leaks and alignment, in steps of the bare program.

Interleaved in one process: a bare step, a recorded one, and the probes on it, again and again.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from lossleuth.probes.gradient.gradient_truth import gradient_truth
from lossleuth.probes.model.leaks import leaks
from lossleuth.probes.run import run_probes
from lossleuth.reference.train.model import LanguageModel, ModelShape
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.roles.alignment import alignment
from lossleuth.tape.roles.roles import find_roles
from lossleuth.tape.window import Window

ROUNDS = 8
Result = TypeVar("Result")


class Program:
    """A bare training loop of 5 M parameters, of which steps can be recorded."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = LanguageModel(ModelShape(4000, 128, 5, 4, 256, "learned"))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.tokens = torch.randint(0, 4000, (4, 129))

    def step(self) -> None:
        """One step as it would be without us."""
        self.optimizer.zero_grad()
        self._loss().backward()
        self.optimizer.step()

    def recorded_step(self) -> Window:
        """The same, recorded."""
        recorder = Recorder(0)
        recorder.start()
        try:
            self.optimizer.zero_grad()
            loss = self._loss()
            backward = recorder.begin_backward([loss], [None])
            loss.backward()
            recorder.end_backward(backward)
            recorder.before_update(self.optimizer)
            self.optimizer.step()
            recorder.after_update(self.optimizer)
        finally:
            recorder.stop()
        return recorder.window

    def _loss(self) -> Tensor:
        logits = self.model(self.tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), self.tokens[:, 1:].flatten())


def structure(window: Window) -> None:
    """Roles, leaks and alignment."""
    roles = find_roles(window)
    leaks(window, roles)
    alignment(window, roles)


def run(console: Console) -> None:
    """Measure and print the ratios."""
    program = Program()
    for _ in range(3):
        program.step()
    bare_peak = _peak()
    names = ("bare again", "capture", "truth", "structure", "all probes")
    rows: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        bare, _ = _timed(program.step)
        rows["bare again"].append(_timed(program.step)[0] / bare)
        capture, window = _timed(program.recorded_step)
        rows["capture"].append(capture / bare)
        truth, _ = _timed(gradient_truth, window, window.backwards[0])
        rows["truth"].append(truth / bare)
        window.replayed.clear()
        rows["structure"].append(_timed(structure, window)[0] / bare)
        rows["all probes"].append(_timed(run_probes, window)[0] / bare)
    count = sum(p.numel() for p in program.model.parameters()) / 1e6
    table = Table("steps of the bare program", "median", "range", title=f"{count:.1f} M parameters")
    for name, values in rows.items():
        table.add_row(name, f"{np.median(values):.2f}", f"{min(values):.2f} to {max(values):.2f}")
    console.print(table)
    peak = _peak()
    ratio = peak / bare_peak
    console.print(f"peak memory {peak:.0f} MB against {bare_peak:.0f} MB bare: {ratio:.2f}")


def _timed(what: Callable[..., Result], *given: Any) -> tuple[float, Result]:
    began = time.perf_counter()
    result = what(*given)
    return time.perf_counter() - began, result


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
