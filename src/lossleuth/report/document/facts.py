"""Collect what a report shows: the verdict, its record and its trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lossleuth.examiner.examination import TRIALS
from lossleuth.examiner.load_evidence import settings_of
from lossleuth.examiner.rejudge import look_of
from lossleuth.examiner.trials import saved_records
from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.precision import OperationError
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.verdict import Verdict
from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import restored_steps
from lossleuth.report.document.headroom import largest_activations
from lossleuth.report.document.sampling import bins
from lossleuth.types.change import Change
from lossleuth.types.errors import BadInput
from lossleuth.types.observed import Floors, Origins
from lossleuth.types.plain import from_plain

# Columns of a heat map, and cells up to which every step is read to fill them.
MAX_COLUMNS = 100
MAX_CELLS = 4_000_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TrialRun:
    """One run of a trial: its changes and its loss at each step."""

    changes: tuple[Change, ...]
    seed: int
    steps: int
    losses: Floats


@dataclass(frozen=True)
class Matrix:
    """One statistic of every parameter over the steps."""

    parameters: Sequence[str]
    steps: Sequence[int]
    # A row for each parameter.
    values: Floats
    note: str = ""


@dataclass(frozen=True)
class GitState:
    """The script's commit, and whether files differ from it."""

    commit: str = ""
    changed: bool = False


@dataclass(frozen=True)
class Header:
    """The start of a record: what was run, where and when."""

    script: str = ""
    arguments: Sequence[str] = ()
    working_directory: str = ""
    python: str = ""
    platform: str = ""
    git: GitState | None = None
    # Seconds since the epoch.
    started: float | None = None


@dataclass(frozen=True)
class Facts:
    """Everything that the report shows, as plain numbers."""

    verdict: Verdict
    header: Header = field(default_factory=Header)
    state: str = ""
    # Damage to the record itself.
    problem: str | None = None
    steps: Floats = field(default_factory=lambda: np.zeros(0))
    series: Mapping[str, Floats] = field(default_factory=dict)
    # Numbers that the script reads, by the line that reads them.
    reads: Mapping[str, Floats] = field(default_factory=dict)
    matrices: Mapping[str, Matrix] = field(default_factory=dict)
    # Steps whose true loss is known.
    true_steps: Sequence[int] = ()
    true_losses: Sequence[float] = ()
    vocabulary: int | None = None
    floors: Floors = field(default_factory=Floors)
    # As recorded: the report lists whatever settings the optimizers have.
    settings: Mapping[str, Any] = field(default_factory=dict)
    origins: Origins = field(default_factory=Origins)
    packages: Mapping[str, str] = field(default_factory=dict)
    trials: Sequence[TrialRun] = ()
    # Rounding error of the gradient at the worst recorded step, relative to its norm, and the
    # operations with the largest errors there; then the largest output of each watched module.
    rounding: float = math.nan
    operations: Sequence[OperationError] = ()
    largest_activations: Sequence[float] = ()

    def of(self, name: str) -> Floats:
        """A scalar at each step; NaN where it was not recorded."""
        series = self.series.get(name)
        return np.full(len(self.steps), np.nan) if series is None else series


# Findings that a report shows.
READS = (GradientTruth, OperationError, TrueLoss)
SCALARS = (
    *("loss", "lr", "clip_factor", "supervised", "grad_norm", "seconds", "tokens_per_second"),
    *("unigram", "classes"),
)
COLUMNS = ("grad_rms", "update_ratio", "update_rms", "grad_max", "weight_rms", "moment2_rms")


def facts_of(directory: Path, verdict: Verdict) -> Facts:
    """Read a run's directory for a report, without torch."""
    try:
        record = Record.open(look_of(directory))
    except BadInput:
        # A script that ended before its first step left only a verdict.
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
            header=from_plain(Header, record.header, lenient=True),
            state=record.state,
            problem=record.problem,
            steps=record.steps.astype(np.float64),
            series=series,
            reads=_reads(record),
            matrices={c: matrix_of(record, c) for c in COLUMNS if c in record.columns},
            true_steps=list(true),
            true_losses=list(true.values()),
            vocabulary=_vocabulary(recorded, series),
            floors=from_plain(Floors, last.get("floors", {}), lenient=True),
            settings=settings_of(events),
            origins=from_plain(Origins, last.get("origins", {}), lenient=True),
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
    """The rounding error of the worst recorded step, and of its operations."""
    worst: tuple[float, list[OperationError]] = (math.nan, [])
    for step in recorded:
        floors = [t.floor for t in step.all(GradientTruth) if math.isfinite(t.floor)]
        if floors and not max(floors) <= worst[0]:
            worst = max(floors), step.all(OperationError)
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
    """The last number that each line of the script read in each step."""
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
    """A column of the record, as the maximum of each bin of steps; a sample of very long runs."""
    count, names = len(record), record.parameter_names
    parts = bins(count, MAX_COLUMNS)
    steps = [int(record.steps[part.start]) for part in parts]
    note = ""
    if count > MAX_COLUMNS:
        note = f"Values are maxima over about {count // len(parts)} steps each."
    whole = count * max(1, len(names)) <= MAX_CELLS
    if not whole:
        note = f"About every {count // len(parts)}th step is shown."
    rows = [
        _largest(record.matrix(column, part if whole else slice(part.start, part.start + 1)))
        for part in parts
    ]
    values = np.stack(rows, axis=1) if rows else np.zeros((len(names), 0))
    return Matrix(names, steps, values, note)


def _largest(values: Floats) -> Floats:
    """The maximum of each column, without NaNs; NaN where there is nothing else."""
    there = ~np.isnan(values)
    largest = np.where(there, values, -math.inf).max(axis=0, initial=-math.inf)
    return np.where(there.any(axis=0), largest, math.nan)


def _trials(directory: Path) -> list[TrialRun]:
    return [
        TrialRun(key.changes, key.seed, key.steps, record.series("loss"))
        for key, record in saved_records(directory / TRIALS)
        if "loss" in record.scalar_names
    ]
