"""Everything that a judge may look at: numbers from a record, and trials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lossleuth.findings.evaluation import Evaluation
from lossleuth.findings.finding import Finding
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.types.change import Change, Effect
from lossleuth.types.observed import (
    Ending,
    Floors,
    Origins,
    PrintedNumber,
    Provenance,
    Readings,
    RunSettings,
    Step,
)

F = TypeVar("F", bound=Finding)


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
