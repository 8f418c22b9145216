"""Examining from Python: a script, or a step function in a notebook or a test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lossleuth.examiner.commands import examine_script
from lossleuth.examiner.examination import Examination
from lossleuth.examiner.request import Request
from lossleuth.judge.verdict import Verdict
from lossleuth.report.writing import write_reports

if TYPE_CHECKING:
    import torch

    from lossleuth.examiner.in_process import Step


def run(script: str | Path, arguments: Sequence[str] = (), **options: Any) -> Verdict:
    """Examine a training script as `lossleuth run` does; options are those of the command."""
    options.setdefault("quiet", True)
    out = options.pop("out", None)
    verdict, directory = examine_script(
        Path(script), arguments, out=None if out is None else Path(out), **options
    )
    write_reports(directory, verdict)
    return verdict


def examine(
    step_function: Step,
    model: torch.nn.Module,
    optimizer: Any,
    batches: Iterable[Any],
    *,
    steps: int = 60,
    budget: float = 60.0,
    seeds: int = 3,
    trials: bool = True,
) -> Verdict:
    """Examine `step_function(model, optimizer, batch)`, which makes one step of training.

    Model and optimizer are as before when it is over. Without trials, a step in which nothing is
    wrong is not called healthy, but "cannot_tell": nothing was tried.

    >>> import torch
    >>> from torch.nn import functional as F
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Embedding(8, 16), torch.nn.Linear(16, 8))
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    >>> tokens = (torch.arange(9) + torch.randint(0, 8, (40, 8, 1))) % 8
    >>> def step(model, optimizer, batch):
    ...     loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    >>> examine(step, model, optimizer, list(tokens), steps=30).status
    'healthy'
    """
    from lossleuth.examiner.in_process import InProcess

    with tempfile.TemporaryDirectory() as folder:
        request = Request(
            name="the step function",
            out=Path(folder),
            steps=steps,
            budget=budget,
            seeds=seeds,
            trials=trials,
        )
        executor = InProcess(step_function, model, optimizer, batches)
        return Examination(executor, request).run()


def assert_healthy(
    step_function: Step,
    model: torch.nn.Module,
    optimizer: Any,
    batches: Iterable[Any],
    **options: Any,
) -> None:
    """Fail, with the verdict's words, unless a step function is found healthy."""
    from lossleuth.report.render.terminal import lines

    verdict = examine(step_function, model, optimizer, batches, **options)
    if verdict.status != "healthy":
        raise AssertionError("\n".join(lines(verdict)))
