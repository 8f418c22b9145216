"""What a report is written from: a verdict, the record it rests on, the trials beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossleuth.examiner.load_evidence import settings_of
from lossleuth.examiner.trials import saved_records
from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.precision import OperationError
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.verdict import Verdict
from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import restored_steps
from lossleuth.report.document.headroom import largest_activations
from lossleuth.report.document.sampling import bunches
from lossleuth.run_directory import RunDirectory
from lossleuth.types.change import Change
from lossleuth.types.errors import BadInput

# Columns of a heat map at most, and cells that are all read to fill them.
MOST_COLUMNS = 100
MOST_CELLS = 4_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TrialRun:
    """One run of a trial: what was changed, and its loss step by step."""

    changes: tuple[Change, ...]
    seed: int
    steps: int
    losses: Floats


@dataclass(frozen=True)
class Matrix:
    """A reading of every parameter over the steps, in at most so many columns."""

    parameters: Sequence[str]
    steps: Sequence[int]
    # A row for each parameter.
    values: Floats
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """Everything that the report shows, as plain numbers."""

    verdict: Verdict
    header: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""
    # What is wrong with the record itself.
    problem: str | None = None
    steps: Floats = field(default_factory=lambda: np.zeros(0))
    series: Mapping[str, Floats] = field(default_factory=dict)
    # Places where the script reads numbers, with the numbers step by step.
    reads: Mapping[str, Floats] = field(default_factory=dict)
    matrices: Mapping[str, Matrix] = field(default_factory=dict)
    # The true loss where it is known.
    true_steps: Sequence[int] = ()
    true_losses: Sequence[float] = ()
    vocabulary: int | None = None
    floors: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    trials: Sequence[TrialRun] = ()
    # What rounding does to the gradient of the worst recorded step, as a share of it, and to its
    # operations; the largest outputs of modules, where they were watched.
    rounding: float = math.nan
    operations: Sequence[OperationError] = ()
    largest_activations: Sequence[float] = ()

    def of(self, name: str) -> Floats:
        """A scalar for each step; NaN where it is absent."""
        found = self.series.get(name)
        return np.full(len(self.steps), np.nan) if found is None else found


# Findings that a report shows.
READS = (GradientTruth, OperationError, TrueLoss)
SCALARS = (
    *("loss", "lr", "clip_factor", "supervised", "grad_norm", "seconds", "tokens_per_second"),
    *("unigram", "classes"),
)
COLUMNS = ("grad_rms", "update_ratio", "update_rms", "grad_max", "weight_rms", "moment2_rms")


def facts_of(directory: Path, verdict: Verdict) -> Facts:
    """Everything that a run's directory holds for a report; without torch."""
    try:
        record = Record.open(RunDirectory(directory).look)
    except BadInput:
        # A script that ended before its first step has a verdict, and nothing else.
        return Facts(verdict)
    with record:
        events = list(record.events())
        recorded = restored_steps(events)
        names = [name for name in SCALARS if name in record.scalar_names]
        series = {name: record.series(name) for name in names}
        true = _true_losses(recorded)
        last = {event.kind: event.data for event in events}
        rounding, operations = _rounding(recorded)
        return Facts(
            verdict,
            header=record.header,
            state=record.state,
            problem=record.problem,
            steps=record.steps.astype(np.float64),
            series=series,
            reads=_reads(record),
            matrices={c: matrix_of(record, c) for c in COLUMNS if c in record.columns},
            true_steps=list(true),
            true_losses=list(true.values()),
            vocabulary=_vocabulary(recorded, series),
            floors=last.get("floors", {}),
            settings=settings_of(events),
            origins=last.get("origins", {}),
            packages=last.get("provenance", {}).get("packages", {}),
            trials=_trials(directory),
            rounding=rounding,
            operations=operations,
            largest_activations=largest_activations(
                [event.data for event in events if event.kind == "activations"]
            ),
        )


def _true_losses(recorded: Sequence[RecordedStep]) -> dict[int, float]:
    found = {
        step.step: true.loss
        for step in recorded
        for true in step.all(TrueLoss)
        if true.loss is not None
    }
    return dict(sorted(found.items()))


def _rounding(recorded: Sequence[RecordedStep]) -> tuple[float, list[OperationError]]:
    """What replays in the recorded types lose: of the worst step, and of its operations."""
    worst: tuple[float, list[OperationError]] = (math.nan, [])
    for step in recorded:
        known = [t.floor for t in step.all(GradientTruth) if math.isfinite(t.floor)]
        if known and not max(known) <= worst[0]:
            worst = max(known), step.all(OperationError)
    return worst


def _vocabulary(recorded: Sequence[RecordedStep], series: Mapping[str, Floats]) -> int | None:
    for step in recorded:
        true = step.first(TrueLoss)
        if true is not None and true.vocabulary:
            return true.vocabulary
    known = series.get("classes", np.zeros(0))
    known = known[np.isfinite(known)]
    return int(known[-1]) if len(known) else None


def _reads(record: Record) -> dict[str, Floats]:
    """The last number that the script read at each place in each step."""
    if "reads" not in record.scalar_names:
        return {}
    found: dict[str, Floats] = {}
    for index, reads in enumerate(record.values("reads")):
        for value, place in reads or ():
            if isinstance(value, int | float):
                row = found.setdefault(str(place), np.full(len(record), np.nan))
                row[index] = value
    return found


def matrix_of(record: Record, column: str) -> Matrix:
    """A column of the record, the largest of each bunch of steps; of very long runs a sample."""
    count, names = len(record), record.parameter_names
    parts = bunches(count, MOST_COLUMNS)
    steps = [int(record.steps[part.start]) for part in parts]
    note = ""
    if count > MOST_COLUMNS:
        note = f"Each column is the largest of about {count // len(parts)} steps."
    whole = count * max(1, len(names)) <= MOST_CELLS
    if not whole:
        note = f"One step in about {count // len(parts)} is shown."
    rows = [
        _largest(record.matrix(column, part if whole else slice(part.start, part.start + 1)))
        for part in parts
    ]
    values = np.stack(rows, axis=1) if rows else np.zeros((len(names), 0))
    return Matrix(names, steps, values, note)


def _largest(values: Floats) -> Floats:
    """The largest of each column; NaN where there is none or one is not a number."""
    there = ~np.isnan(values)
    largest = np.where(there, values, -math.inf).max(axis=0, initial=-math.inf)
    return np.where(there.any(axis=0), largest, math.nan)


def _trials(directory: Path) -> list[TrialRun]:
    return [
        TrialRun(key.changes, key.seed, key.steps, record.series("loss"))
        for key, record in saved_records(RunDirectory(directory))
        if "loss" in record.scalar_names
    ]
