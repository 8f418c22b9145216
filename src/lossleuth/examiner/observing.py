"""Observes a program: a first look, and further ones with proven faults cured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.examiner.request import Budget, Request
from lossleuth.interventions.spec import spec_of
from lossleuth.judge.choosing import MAX_TRIAL_STEPS, first_bad, joined, missed_evaluations
from lossleuth.observe.launch.executor import Executor, RunOutcome, RunSpec, last_words
from lossleuth.run_directory import of_bad_step, of_evaluations
from lossleuth.types.change import Change
from lossleuth.types.errors import BadInput
from lossleuth.types.evidence import Evidence
from lossleuth.types.phases import Phase

# Steps that are recorded and replayed, as far as the run gets: where they are not chosen as it
# unfolds, and with cures in.
WINDOWS = (0, 1, 4, 16, 60, 150, 375, 940, 2350, 5900)
CURED_WINDOWS = (1, 24, 60)
# Steps of a look whose cure has every step recorded and replayed.
MAX_TAPED_STEPS = 30
# Share of the budget that one look may take.
MAX_SHARE = 0.4
# Share of it that the way to an evaluation may take, where that is recorded by running again.
AGAIN_SHARE = 0.2


@dataclass(frozen=True)
class Look:
    """One observation: what it showed, with the trials made on top of it, and its records."""

    evidence: Evidence
    # The record of the look, then records of further steps of the same run.
    directories: tuple[Path, ...]
    # The program trains without autograd.
    by_hand: bool = False
    # Seconds that the run took beside its steps: to start, to load, to end.
    overhead: float = 0.0

    def by_phase(self) -> list[Look]:
        """What was seen of each phase of the run; the look itself where there is only one."""
        phases = self.evidence.phases
        return [replace(self, evidence=self.evidence.of_phase(p)) for p in phases] or [self]

    def joined_by(self, other: Look) -> Look:
        """With further steps of the same run."""
        return replace(
            self,
            evidence=joined(self.evidence, other.evidence),
            directories=(*self.directories, *other.directories),
        )


class Observing:
    """Runs the program and records it; tries and judges nothing."""

    def __init__(
        self,
        executor: Executor,
        request: Request,
        budget: Budget,
        progress: Callable[[str], None],
    ) -> None:
        self._executor = executor
        self._request = request
        self._budget = budget
        self._progress = progress

    def first(self) -> Look:
        """The program as it is; BadInput if it does not train."""
        request = self._request
        plan = replace(
            self._plan(request.run.observed, request.steps, (0,)), paced=True, keeps_batches=True
        )
        finished = self._run(plan)
        try:
            look = self._read(finished)
        except BadInput as reason:
            if finished.code != 0:
                raise
            return self._by_hand(plan, reason)
        look = self._with_bad_step(plan, look)
        missed = missed_evaluations(look.evidence, AGAIN_SHARE * request.budget)
        if missed and self._budget.has(0.5):
            self._progress(f"running it again to record the evaluation before step {missed[-1]}")
            look = self._record_again(plan, look, of_evaluations(plan.directory), missed)
        return look

    def cured(
        self,
        number: int,
        cures: tuple[Change, ...],
        phase: Phase | None = None,
        lead: float = 0.0,
    ) -> Look:
        """A short look with cures applied; BadInput if the program does not train with them.

        To a later phase of the run it takes so many seconds more.
        """
        taped = any(spec_of(cure.name).wants_tape for cure in cures)
        most = MAX_TAPED_STEPS if taped else MAX_TRIAL_STEPS
        steps = min(self._request.steps or most, most, phase.steps if phase else most)
        first = phase.first if phase else 0
        windows = tuple(first + w for w in CURED_WINDOWS)
        plan = self._plan(self._request.run.cured(number), first + steps, windows, cures)
        plan = replace(plan, from_step=first, seconds=plan.seconds + lead)
        look = self._with_bad_step(plan, self._read(self._run(plan)))
        evidence = look.evidence if phase is None else look.evidence.of_phase(phase)
        if not evidence.steps and phase is not None:
            raise BadInput(
                f"{phase.steps} steps from step {first + 1} on", "none", "see its output"
            )
        return replace(look, evidence=replace(evidence, cures=cures))

    def unfinished(self) -> Look | None:
        """What an interrupted first look recorded; None without a single step."""
        run = self._request.run
        with suppress(BadInput):
            look = Look(evidence_of(run.look), (run.look,), run.look == run.observed_by_hand)
            return look if look.evidence.steps else None
        return None

    def _plan(
        self,
        directory: Path,
        steps: int | None,
        windows: tuple[int, ...],
        cures: tuple[Change, ...] = (),
    ) -> RunSpec:
        return RunSpec(
            directory,
            steps,
            seconds=self._budget.for_observing(MAX_SHARE),
            tape=tuple(w for w in windows if steps is None or w < steps),
            changes=cures,
        )

    def _run(self, plan: RunSpec) -> RunOutcome:
        most = f"{plan.steps} steps" if plan.steps else f"{plan.seconds:.0f} s of training"
        self._progress(f"running {self._request.name} for up to {most}")
        (finished,) = self._executor.run([plan], self._budget.runs_until)
        if finished.problem is not None:
            self._progress(f"{finished.problem}: judging what was seen so far")
        return finished

    def _with_bad_step(self, plan: RunSpec, look: Look) -> Look:
        bad = first_bad(look.evidence)
        if bad is None or bad in {step.step for step in look.evidence.recorded}:
            return look
        self._progress(f"running it again to record step {bad}, the first that went wrong")
        return self._record_again(plan, look, of_bad_step(plan.directory), (bad,))

    def _record_again(
        self, plan: RunSpec, look: Look, directory: Path, steps: tuple[int, ...]
    ) -> Look:
        """Run again, which gives the same steps, and record the missing ones."""
        again = replace(plan, directory=directory, tape=steps, paced=False, keeps_batches=False)
        again = replace(again, steps=max(steps) + 1)
        (finished,) = self._executor.run([again], self._budget.runs_until)
        try:
            return look.joined_by(self._read(finished))
        except BadInput:
            return look

    def _by_hand(self, plan: RunSpec, reason: BadInput) -> Look:
        """Without a backward pass and an optimizer, a program may train all the same."""
        self._progress("no backward pass seen: looking for updates made by hand")
        directory = self._request.run.observed_by_hand
        windows = tuple(w for w in WINDOWS if plan.steps is None or w < plan.steps)
        by_hand = replace(plan, directory=directory, tape=windows, paced=False, by_hand=True)
        by_hand = replace(by_hand, keeps_batches=False)
        (finished,) = self._executor.run([by_hand], self._budget.runs_until)
        try:
            return replace(self._read(finished), by_hand=True)
        except BadInput:
            raise reason from None

    def _read(self, finished: RunOutcome) -> Look:
        directory = finished.plan.directory
        expected = "a script that trains"
        words = last_words(directory, 600).splitlines()
        try:
            evidence = evidence_of(directory)
        except BadInput:
            tail = f"; it ended with: {words[-1]}" if words else ""
            if finished.problem:
                found = f"no training step in {self._request.name} ({finished.problem}{tail})"
                raise BadInput(expected, found, "give it more time with --budget") from None
            found = f"{self._request.name}, which did not import torch{tail}"
            raise BadInput(expected, found, "run it by itself first") from None
        if not evidence.steps and not evidence.ending.unfinished:
            reason = finished.problem or (f"it ended with: {words[-1]}" if words else "it ended")
            found = f"no training step in {self._request.name} ({reason})"
            raise BadInput(expected, found, "give the script that trains, with its arguments")
        trained = sum(step.seconds or 0.0 for step in evidence.steps)
        return Look(evidence, (directory,), overhead=max(0.0, finished.seconds - trained))
