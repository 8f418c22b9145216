"""Runs that were never made but are recorded, and causes made for the purpose."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from made_runs import found_on, true_loss

from lossleuth.files import make_directory
from lossleuth.observe.launch.executor import RunOutcome, RunSpec
from lossleuth.observe.steps.pacing import EARLY
from lossleuth.record.write import RecordWriter
from lossleuth.run_directory import OUTPUT
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status

Losses = Callable[[RunSpec], Sequence[float]]


class Recorded:
    """An executor that writes the records of runs with given losses, and may be interrupted."""

    def __init__(self, losses: Losses, *, interrupted_at: int | None = None) -> None:
        self._losses = losses
        self._interrupted_at = interrupted_at
        self.calls: list[list[RunSpec]] = []

    def run(
        self,
        plans: Sequence[RunSpec],
        until: float = math.inf,
        on_finished: Callable[[RunOutcome], None] = lambda _: None,
    ) -> list[RunOutcome]:
        self.calls.append(list(plans))
        if len(self.calls) == self._interrupted_at:
            raise KeyboardInterrupt
        found = [self._write(plan) for plan in plans]
        for finished in found:
            on_finished(finished)
        return found

    def _write(self, plan: RunSpec) -> RunOutcome:
        make_directory(plan.directory)
        (plan.directory / OUTPUT).write_text("one line\nthe last line\n")
        writer = RecordWriter.create(plan.directory, {"script": "train.py"}, print)
        for step, loss in enumerate(self._losses(plan)[: plan.steps]):
            writer.step({"step": step, "loss": loss, "seconds": 0.01}, None)
            if step in plan.tape or (plan.paced and step in EARLY):
                writer.event(*found_on(step, true_loss(loss)))
        writer.end({"how": "stopped"})
        return RunOutcome(plan, 0, 1.0)


class Silent(Recorded):
    """One that leaves no record."""

    def _write(self, plan: RunSpec) -> RunOutcome:
        make_directory(plan.directory)
        (plan.directory / OUTPUT).write_text("ImportError: no torch\n")
        return RunOutcome(plan, 1, 1.0)


def cause(
    identifier: str,
    judge: Callable[[Evidence], Judgement],
    stage: Stage = Stage.DATA,
    *,
    voids_trials: bool = False,
) -> Cause:
    return Cause(identifier, stage, "a summary", judge, voids_trials=voids_trials)


def says(status: Status, because: str = "1 is not 2", **more: Any) -> Judgement:
    return Judgement(status, because, **more)


def always(judgement: Judgement) -> Callable[[Evidence], Judgement]:
    return lambda _: judgement


def curable(change: Change) -> Callable[[Evidence], Judgement]:
    """A judge that suspects until it has seen a trial, then lets that decide."""

    def judge(evidence: Evidence) -> Judgement:
        effect = evidence.effects.get(change)
        if change in evidence.failed:
            return says(Status.UNTESTED, evidence.failed[change])
        if effect is None or effect.seeds < 3:
            if evidence.losses[-1] < 1.0:
                return says(Status.REFUTED, "it learns")
            return says(Status.SUSPECTED, trials_wanted=(change,))
        if effect.is_better:
            return says(Status.PROVEN, harm=effect, cure=change)
        return says(Status.REFUTED, effect.sentence)

    return judge
