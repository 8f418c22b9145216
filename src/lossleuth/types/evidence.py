"""Everything that a judge may look at: numbers from a record, and trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.finding import Finding
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.change import Change, Effect
from lossleuth.types.observed import (
    READINGS,
    Declared,
    Ending,
    Floors,
    Numbers,
    Origins,
    PrintedNumber,
    Provenance,
    Readings,
    RunSettings,
    Step,
    Trainee,
)
from lossleuth.types.phases import Phase, numbers_in, phases_of
from lossleuth.types.yardstick import Yardstick

F = TypeVar("F", bound=Finding)
T = TypeVar("T")
# How a phase ends that another one follows.
NEXT_PHASE = "next phase"


@dataclass(frozen=True)
class SeenEvaluation:
    """An evaluation that was recorded, and the numbers printed until the next update was over."""

    step: int
    evaluation: Evaluation
    printed: Sequence[PrintedNumber] = ()


@dataclass(frozen=True)
class Evidence:
    """What was observed of a run, what probes found on recorded steps, and what trials showed."""

    steps: Sequence[Step] = ()
    # Names and sizes of the parameters that were updated, and readings of them.
    parameters: Sequence[str] = ()
    sizes: Sequence[int] = ()
    readings: Readings = field(default_factory=Readings)
    # Steps that were recorded as tapes, with what the probes found on them.
    recorded: Sequence[RecordedStep] = ()
    evaluations: Sequence[SeenEvaluation] = ()
    settings: RunSettings = field(default_factory=RunSettings)
    origins: Origins = field(default_factory=Origins)
    provenance: Provenance = field(default_factory=Provenance)
    floors: Floors = field(default_factory=Floors)
    ending: Ending = field(default_factory=Ending)
    # What was declared on the way, and what was trained: only phases make a difference there.
    declared: Sequence[Declared] = ()
    trainees: Sequence[Trainee] = ()
    # The phase of the run that this is, where there are several.
    phase: Phase | None = None
    script: str | None = None
    # Patches of torch that could not be applied, and why: what they see stays unseen.
    missing_patches: Mapping[str, str] = field(default_factory=dict)
    # Cures of other faults that were in when this was seen: a short second look.
    cures: Sequence[Change] = ()
    effects: Mapping[Change, Effect] = field(default_factory=dict)
    # Of changes that made no difference: one pair of runs that were longer.
    longer: Mapping[Change, Effect] = field(default_factory=dict)
    # Trials that were asked for and gave nothing, with the reason.
    failed: Mapping[Change, str] = field(default_factory=dict)
    # What references made of its batches.
    yardstick: Yardstick | None = None

    def all(self, kind: type[F]) -> list[F]:
        """Findings of a kind on all recorded steps, as far as they could be measured."""
        return [finding for step in self.recorded for finding in step.all(kind)]

    def by_step(self, kind: type[F]) -> Iterator[tuple[int, F]]:
        """The same, each with the number of its step."""
        return ((step.step, finding) for step in self.recorded for finding in step.all(kind))

    def reasons(self, kind: type[Finding]) -> list[str]:
        """Why findings of a kind could not be measured."""
        return [reason for step in self.recorded for reason in step.reasons(kind)]

    def errors(self, name: str) -> list[str]:
        """What went wrong in a probe of that name."""
        return [step.errored[name] for step in self.recorded if name in step.errored]

    def only(self, kinds: tuple[type[Finding], ...]) -> Evidence:
        """The same with findings of these kinds alone."""
        evaluations = self.evaluations if Evaluation in kinds else ()
        recorded = [step.only(kinds) for step in self.recorded]
        return replace(self, recorded=recorded, evaluations=evaluations)

    @property
    def phases(self) -> list[Phase]:
        """What the program trains one after another; empty where that is one thing."""
        numbers = [step.step for step in self.steps]
        found = phases_of(numbers, [step.trained for step in self.steps])
        return found if len(found) > 1 else []

    def of_phase(self, phase: Phase) -> Evidence:
        """What belongs to one phase of the run, as of a run by itself: its steps begin at 0."""
        rows = [i for i, s in enumerate(self.steps) if phase.first <= s.step <= phase.last]
        steps = [replace(s, step=s.step - phase.first) for s in (self.steps[i] for i in rows)]
        if steps and rows[0] and not any(step.places for step in steps):
            # Lines are noted where they change; here they are those from before.
            known = (s.places for s in reversed(self.steps[: rows[0]]) if s.places)
            steps[0] = replace(steps[0], places=next(known, None))
        numbers = numbers_in([step.trained for step in steps])
        columns = _updated(self.readings, rows)
        seen = [d for d in self.declared if phase.first <= d.steps_before <= phase.last + 1]
        is_last = not self.steps or self.steps[-1].step <= phase.last
        ending = self.ending if is_last else Ending(how=NEXT_PHASE)
        evaluated = [s - phase.first for s in self.ending.evaluated if _is_within(s, phase)]
        return replace(
            self,
            phase=phase,
            steps=steps,
            parameters=_chosen(self.parameters, columns),
            sizes=_chosen(self.sizes, columns),
            readings=_cut(self.readings, rows, columns),
            recorded=[
                replace(r, step=r.step - phase.first)
                for r in self.recorded
                if phase.first <= r.step <= phase.last
            ],
            # An evaluation stands before a step: that of the next phase's first is of this one.
            evaluations=[
                replace(e, step=e.step - phase.first)
                for e in self.evaluations
                if _is_within(e.step, phase)
            ],
            settings=_settings_of(numbers, seen) or self.settings,
            floors=_floors_of(seen, phase) or Floors(),
            ending=replace(ending, evaluated=evaluated),
            trainees=[t for t in self.trainees if t.number in numbers],
        )

    @property
    def losses(self) -> list[float]:
        """The loss of each step that has one."""
        return [step.loss for step in self.steps if step.loss is not None]

    @property
    def learning_rates(self) -> list[float]:
        """The learning rate of each step that has one."""
        return [step.lr for step in self.steps if step.lr is not None]

    def answers(self, changes: Sequence[Change]) -> list[Effect]:
        """The effects that are known of these changes."""
        return [self.effects[change] for change in changes if change in self.effects]


def _is_within(step: int, phase: Phase) -> bool:
    """Whether what happened before this step happened in a phase."""
    return phase.first < step <= phase.last + 1 or step == phase.first == 0


def _updated(readings: Readings, rows: Sequence[int]) -> list[int] | None:
    """The parameters that were updated in some steps; None where nothing says so."""
    updates = readings.update_rms
    if not updates:
        return None
    found: set[int] = set()
    for row in rows:
        found.update(i for i, value in enumerate(updates[row]) if not math.isnan(value))
    return sorted(found)


def _chosen(items: Sequence[T], columns: Sequence[int] | None) -> Sequence[T]:
    return items if columns is None else [items[i] for i in columns if i < len(items)]


def _cut(readings: Readings, rows: Sequence[int], columns: Sequence[int] | None) -> Readings:
    def cut(numbers: Numbers) -> Numbers:
        return [_chosen(numbers[i], columns) for i in rows] if numbers else ()

    return Readings(**{name: cut(getattr(readings, name)) for name in READINGS})


def _settings_of(numbers: Set[int], declared: Sequence[Declared]) -> RunSettings | None:
    """The last settings of optimizers that train one of these."""
    for one in reversed(declared):
        if one.settings is None:
            continue
        optimizers = [o for o in one.settings.optimizers if o.trained in numbers]
        if optimizers:
            schedulers = [s for s in one.settings.schedulers if s.trained in numbers]
            return RunSettings(optimizers, schedulers)
    return None


def _floors_of(declared: Sequence[Declared], phase: Phase) -> Floors | None:
    """What was counted at the end of a phase; at its beginning it is that of the one before."""
    later = [one.floors for one in declared if one.steps_before > phase.first]
    return next((floors for floors in reversed(later) if floors is not None), None)
