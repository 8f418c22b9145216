"""Load what a report shows from a run's directory, without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from lossleuth.examiner.load_evidence import settings_of
from lossleuth.examiner.trials import saved_records
from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.precision import OperationError
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.verdict import Verdict
from lossleuth.record.read import Record
from lossleuth.record.recorded_steps import restored_steps
from lossleuth.report.document.facts import Facts, Header, Rounding, TrialRun
from lossleuth.report.document.headroom import largest_activations
from lossleuth.report.document.matrix import Floats, matrix_of
from lossleuth.report.document.references import references
from lossleuth.run_directory import RunDirectory
from lossleuth.types.errors import BadInput
from lossleuth.types.observed import Floors, Origins
from lossleuth.types.plain import from_plain

SCALARS = (
    *("loss", "lr", "clip_factor", "supervised", "grad_norm", "seconds", "tokens_per_second"),
    *("unigram", "classes"),
)
COLUMNS = ("grad_rms", "update_ratio", "update_rms", "grad_max", "weight_rms", "moment2_rms")


def facts_of(directory: Path, verdict: Verdict) -> Facts:
    """Read a run's directory for a report, without torch."""
    try:
        record = Record.open(RunDirectory(directory).look)
    except BadInput:
        # A script that ended before its first step left only a verdict.
        return Facts(verdict)
    with record:
        events = list(record.events())
        recorded = restored_steps(events)
        names = [name for name in SCALARS if name in record.scalar_names]
        series = {name: record.series(name) for name in names}
        last = {event.kind: event.data for event in events}
        return Facts(
            verdict,
            header=from_plain(Header, record.header, lenient=True),
            state=record.state,
            problem=record.problem,
            steps=record.steps.astype(np.float64),
            series=series,
            reads=_reads(record),
            matrices={c: matrix_of(record, c) for c in COLUMNS if c in record.columns},
            true_losses=_true_losses(recorded),
            references=references(directory),
            vocabulary=_vocabulary(recorded, series),
            floors=from_plain(Floors, last.get("floors", {}), lenient=True),
            settings=settings_of(events),
            origins=from_plain(Origins, last.get("origins", {}), lenient=True),
            packages=last.get("provenance", {}).get("packages", {}),
            trials=_trials(directory),
            rounding=_rounding(recorded),
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


def _rounding(recorded: Sequence[RecordedStep]) -> Rounding:
    """The rounding errors of the worst recorded step."""
    worst = Rounding()
    for step in recorded:
        floors = [t.floor for t in step.all(GradientTruth) if math.isfinite(t.floor)]
        if floors and not max(floors) <= worst.gradient_error:
            worst = Rounding(max(floors), step.all(OperationError))
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


def _trials(directory: Path) -> list[TrialRun]:
    return [
        TrialRun(key.changes, key.seed, key.steps, record.series("loss")[key.first :], key.first)
        for key, record in saved_records(RunDirectory(directory))
        if "loss" in record.scalar_names
    ]
