"""A saved record as evidence: plain numbers for judges that know neither torch nor files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lossleuth.examiner.printed_numbers import printed_between
from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.no_autograd import HandLoss
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.record.read import Event, Record
from lossleuth.record.recorded_steps import restored_steps
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence, SeenEvaluation
from lossleuth.types.observed import (
    READINGS,
    Declared,
    Ending,
    Floors,
    Origins,
    Provenance,
    Readings,
    RunSettings,
    Step,
    Trainee,
)
from lossleuth.types.plain import from_plain

Rows = list[list[float]]
# Readings of one kind that are held at most, and steps that are held in any case.
MAX_READINGS, MIN_STEPS = 1_000_000, 1_000
# Findings that are looked at here.
READS = (HandLoss,)


def evidence_of(
    directory: Path,
    effects: Mapping[Change, Effect] | None = None,
    failed: Mapping[Change, str] | None = None,
) -> Evidence:
    """Everything that a run's record holds for a judge."""
    with Record.open(directory) as record:
        events = list(record.events())
        names = list(record.parameter_names)
        chosen = _chosen(len(record), len(names))
        steps = [
            Step.of(row.scalars) for part in chosen for row in record.rows(part, matrices=False)
        ]
        columns = {
            name: [row for part in chosen for row in record.matrix(name, part).tolist()]
            for name in READINGS
            if name in record.columns
        }
        recorded = restored_steps(events, ("tape", "evaluation"))
        steps = with_read_losses(steps, recorded)
        ended = dict(record.ended or {}) | {"unfinished": _last(events, "unfinished") or None}
        return Evidence(
            steps=steps,
            parameters=names,
            sizes=[record.parameter_sizes[name] for name in names],
            readings=Readings(**_without_idle(steps, columns)),
            recorded=[step for step in recorded if step.part == "tape"],
            evaluations=evaluations_of(directory, recorded),
            settings=from_plain(RunSettings, settings_of(events), lenient=True),
            origins=from_plain(Origins, _last(events, "origins"), lenient=True),
            provenance=from_plain(Provenance, _last(events, "provenance"), lenient=True),
            floors=from_plain(Floors, _last(events, "floors"), lenient=True),
            ending=from_plain(Ending, ended, lenient=True),
            declared=[found for event in events for found in _declared(event)],
            trainees=[
                from_plain(Trainee, event.data, lenient=True)
                for event in events
                if event.kind == "trainee"
            ],
            script=record.header.get("script"),
            missing_patches=dict(record.header.get("missing_patches") or {}),
            effects=dict(effects or {}),
            failed=dict(failed or {}),
        )


def with_read_losses(steps: Sequence[Step], recorded: Sequence[RecordedStep]) -> list[Step]:
    """Where no backward pass says what the loss is, the number that is read where it was found.

    >>> found = RecordedStep(0, [HandLoss(2.5, "train.py:9", which=0)])
    >>> step = Step(1, updates=1, reads=[(0.1, "train.py:3"), (2.4, "train.py:9")])
    >>> [s.loss for s in with_read_losses([step], [found])]
    [2.4]
    """
    found = [loss for step in recorded for loss in step.all(HandLoss)]
    if not found:
        return list(steps)
    # The line that most recorded steps agree on.
    places = [(loss.place, loss.which) for loss in found]
    place, which = max(places, key=places.count)
    return [_with_read_loss(step, place, which) for step in steps]


def _with_read_loss(step: Step, place: str, which: int) -> Step:
    if step.loss is not None or step.backwards or not step.updates:
        return step
    read = [value for value, at in step.reads or () if at == place]
    return step if which >= len(read) else replace(step, loss=read[which])


def _without_idle(steps: Sequence[Step], columns: dict[str, Rows]) -> dict[str, Rows]:
    """At a rate of 0 there is no update of which anything could be lost.

    >>> _without_idle([Step(lr=0.0), Step(lr=0.1)], {"swallowed_share": [[1.0], [0.5]]})
    {'swallowed_share': [[nan], [0.5]]}
    """
    lost = columns.get("swallowed_share")
    if lost is None:
        return columns
    kept = [
        [math.nan] * len(row) if step.lr == 0 else row
        for step, row in zip(steps, lost, strict=True)
    ]
    return columns | {"swallowed_share": kept}


def _chosen(steps: int, parameters: int) -> list[slice]:
    """All steps; of a run that is too long to be held, its beginning and its end.

    >>> _chosen(100, 8)
    [slice(None, None, None)]
    """
    most = max(MIN_STEPS, MAX_READINGS // max(1, parameters))
    if steps <= most:
        return [slice(None)]
    return [slice(0, most // 2), slice(steps - most // 2, None)]


def evaluations_of(directory: Path, recorded: Sequence[RecordedStep]) -> list[SeenEvaluation]:
    """Evaluations on recorded steps, in the order of the run, with what was printed of them."""
    found = [
        SeenEvaluation(step.step, evaluation, printed_between(directory, step.printed))
        for step in recorded
        for evaluation in step.findings
        if isinstance(evaluation, Evaluation)
    ]
    return sorted(found, key=lambda one: one.step)


def settings_of(events: Sequence[Event]) -> dict[str, Any]:
    """The latest settings that know of optimizers: at the end of a run they may be gone."""
    declared = [event.data for event in events if event.kind == "settings"]
    known = [settings for settings in declared if settings.get("optimizers")]
    return dict((known or declared or [{}])[-1])


def _declared(event: Event) -> Iterator[Declared]:
    """Settings and floors, with when they were known."""
    if event.kind == "settings":
        settings = from_plain(RunSettings, event.data, lenient=True)
        yield Declared(event.steps_before, settings=settings)
    elif event.kind == "floors":
        floors = from_plain(Floors, event.data, lenient=True)
        yield Declared(event.steps_before, floors=floors)


def _last(events: Sequence[Event], kind: str) -> dict[str, Any]:
    return next((dict(e.data) for e in reversed(events) if e.kind == kind), {})
