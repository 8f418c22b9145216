"""Carries out the commands `run`, `causes` and `explain`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from lossleuth.catalogue import cause as cause_of
from lossleuth.catalogue import causes, chosen_causes, page
from lossleuth.examiner.examination import Examination
from lossleuth.examiner.progress import ProgressPrinter
from lossleuth.examiner.request import Request
from lossleuth.judge.verdict import Verdict
from lossleuth.observe.launch.executor import Background
from lossleuth.observe.launch.program import Program
from lossleuth.process_tree import ended_in_order
from lossleuth.run_directory import dated_directory, free_directory

MAX_JOBS = 4


def examine_script(
    script: Path,
    arguments: Sequence[str],
    *,
    out: Path | None = None,
    steps: int | None = None,
    budget: float = 120.0,
    seeds: int = 3,
    trials: bool = True,
    only: Sequence[str] = (),
    quiet: bool = False,
    as_json: bool = False,
) -> tuple[Verdict, Path]:
    """Examine a script and write its verdict; the verdict and its directory."""
    program = Program(script, tuple(arguments))
    program.check()
    chosen_causes(only)
    directory = free_directory(out or dated_directory())

    request = Request(
        name=script.name,
        out=directory,
        steps=steps,
        budget=budget,
        seeds=seeds,
        trials=trials,
        early=True,
        only=tuple(only),
    )
    jobs = max(1, min(MAX_JOBS, os.cpu_count() or 1))
    background = Background(program, jobs, forks=True)
    try:
        with (
            ended_in_order(),
            ProgressPrinter(quiet=quiet, as_json=as_json) as report_progress,
        ):
            verdict = Examination(background, request, report_progress).run()
    finally:
        background.close()
    verdict.write(directory)
    return verdict, directory


def as_json(verdict: Verdict) -> str:
    """The verdict as it is written, on one line."""
    return json.dumps(verdict.as_json(), allow_nan=False)


def listed() -> list[str]:
    """One line for each cause."""
    lines = []
    for c in causes():
        needs = ", ".join(c.needs_by_name) or "steps"
        lines.append(f"{c.stage.value:<15} {c.id:<27} {c.summary} (needs {needs})")
    return lines


def explained(identifier: str) -> str:
    """The page of a cause."""
    return page(cause_of(identifier))
