"""The whole way from a script to a verdict: observe, judge, try, judge again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lossleuth.catalogue import causes as all_causes
from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.examiner.progress import RuledOut
from lossleuth.examiner.trials import TAPED, Measured, RunKey, Trials
from lossleuth.judge.choosing import (
    MOST_STEPS,
    TRIAL_SECONDS,
    briefly_tried,
    first_bad,
    joined,
    merged,
    missed_evaluations,
    next_wishes,
    trial_steps,
)
from lossleuth.judge.judging import (
    explained,
    judge_all,
    stood_down,
    untried,
    wanted,
    without_trials,
)
from lossleuth.judge.known_numbers import recognised
from lossleuth.judge.learning import OVERFIT, Learning, has_crashed, learning
from lossleuth.judge.verdict import Verdict, ranked, status_of
from lossleuth.observe.launch.executor import Executor, Finished, Plan, last_words
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status

# Folders of a run's first look, and of the one for programs without autograd.
OBSERVED, OBSERVED_BY_HAND = "observed", "observed-by-hand"
TRIALS = "trials"
# What the names of looks end in that were taken again, to record other steps.
BAD, EVALUATED = "-bad", "-evaluated"
# Steps that are recorded and replayed, as far as the run gets.
WINDOWS = (0, 1, 4, 16, 60, 150)
CURED_WINDOWS = (1, 24, 60)
# Steps of a second look whose cure has every step recorded and replayed.
MOST_CURED_TAPED = 30
# Share of the budget that the first look may take.
OBSERVING = 0.4
MOST_ROUNDS = 3

Told = Callable[[str | RuledOut], None]


@dataclass(frozen=True)
class Request:
    """What the user asks for."""

    # What is examined, as it is told.
    name: str
    out: Path
    steps: int = 200
    budget: float = 120.0
    seeds: int = 3
    trials: bool = True
    only: tuple[str, ...] = ()


class Examination:
    """One examination of one program."""

    def __init__(self, executor: Executor, request: Request, told: Told = lambda _: None) -> None:
        self._executor = executor
        self._request = request
        self._told = told
        self._began = time.monotonic()
        self._until = self._began + request.budget
        self._causes = [c for c in all_causes() if not request.only or c.id in request.only]
        # Runs that were made, whatever they were made for.
        self._made: dict[RunKey, Measured | str] = {}
        self._tries = request.trials
        self.interrupted = False

    def run(self) -> Verdict:
        """Observe, judge and try; Ctrl-C ends with what is known."""
        directory = self._request.out / OBSERVED
        judgements: dict[str, Judgement] = {}
        evidence = Evidence()
        state = Learning(None, "nothing was observed")
        cures: tuple[Change, ...] = ()
        first, known = evidence, judgements
        try:
            first = evidence = self._observe(directory, cures)
            known = judgements = self._judge(evidence, cured=False)
            self._tell_ruled_out(judgements)
            for round_number in range(MOST_ROUNDS):
                cure = self._new_cure(judgements, cures)
                if cure is None:
                    trials = self._trials(evidence, cures, round_number)
                    evidence, judgements = self._try(
                        trials, evidence, judgements, cured=bool(cures)
                    )
                    cure = self._new_cure(judgements, cures)
                if round_number == 0:
                    first, known = evidence, dict(judgements)
                else:
                    known = merged(known, judgements, cures)
                last = self.interrupted or round_number == MOST_ROUNDS - 1
                if cure is None or last or not self._has_time(0.25):
                    break
                cures = (*cures, cure)
                self._told(
                    f"re-running with the fix {cure.sentence} applied, to look for a second fault"
                )
                try:
                    evidence = self._observe(self._request.out / f"cured{round_number + 1}", cures)
                    evidence = replace(evidence, cures=cures)
                except BadInput as reason:
                    self._told(f"with the fix {cure.sentence} applied it does not train: {reason}")
                    break
                judgements = self._judge(evidence, cured=True)
            first, state = self._learns(first, known)
        except KeyboardInterrupt:
            self._interrupt()
        # What was judged with a cure in is of another run, and already merged.
        return self._verdict(first, known, state)

    def _interrupt(self) -> None:
        self.interrupted = True
        self._told("interrupted: judging what was seen so far")

    # observing

    def _observe(self, directory: Path, changes: tuple[Change, ...]) -> Evidence:
        request = self._request
        left = self._until - time.monotonic()
        seconds = max(5.0, min(OBSERVING * request.budget, left / 2))
        # With a cure in, the second look is a short one.
        steps = request.steps
        if changes:
            taped = any(change.name in TAPED for change in changes)
            steps = min(steps, MOST_CURED_TAPED if taped else MOST_STEPS)
        windows = tuple(w for w in (CURED_WINDOWS if changes else WINDOWS) if w < steps)
        self._told(f"running {request.name} for up to {steps} steps")
        plan = Plan(directory, steps, seconds, tape=windows, changes=changes)
        (finished,) = self._executor.run([plan])
        try:
            evidence = self._read(finished)
        except BadInput as reason:
            if changes or finished.code != 0:
                raise
            return self._observe_hands(plan, reason)
        bad = first_bad(evidence)
        if bad is not None and bad not in windows:
            self._told(f"running it again to record step {bad}, the first that went wrong")
            evidence = self._record_again(plan, evidence, BAD, (bad,))
        missed = missed_evaluations(evidence)
        if missed and not changes and self._has_time(0.5):
            self._told(f"running it again to record the evaluation before step {missed[-1]}")
            evidence = self._record_again(plan, evidence, EVALUATED, missed)
        return evidence

    def _record_again(
        self, plan: Plan, evidence: Evidence, name: str, steps: tuple[int, ...]
    ) -> Evidence:
        """Re-execution gives the same steps: record those that were not."""
        directory = plan.directory.with_name(f"{plan.directory.name}{name}")
        again = replace(plan, directory=directory, tape=steps, steps=max(steps) + 1)
        (finished,) = self._executor.run([again], self._until)
        try:
            return joined(evidence, self._read(finished))
        except BadInput:
            return evidence

    def _observe_hands(self, plan: Plan, reason: BadInput) -> Evidence:
        """Without a backward pass and an optimizer, a program may train all the same."""
        self._told("no backward pass seen: looking for updates made by hand")
        directory = plan.directory.with_name(OBSERVED_BY_HAND)
        (finished,) = self._executor.run([replace(plan, directory=directory, by_hand=True)])
        try:
            evidence = self._read(finished)
        except BadInput:
            raise reason from None
        # Changes are made through optimizers and backward passes, of which there is none.
        self._tries = False
        return evidence

    def _read(self, finished: Finished) -> Evidence:
        directory = finished.plan.directory
        expected = "a script that trains"
        try:
            evidence = evidence_of(directory)
        except BadInput:
            words = last_words(directory, 600).splitlines()
            tail = f"; it ended with: {words[-1]}" if words else ""
            if finished.problem:
                found = f"no training step in {self._request.name} ({finished.problem}{tail})"
                raise BadInput(expected, found, "give it more time with --budget") from None
            found = f"{self._request.name}, which did not come to import torch{tail}"
            raise BadInput(expected, found, "run it by itself first") from None
        if not evidence.steps and not evidence.ending.get("unfinished"):
            words = last_words(directory, 600).splitlines()
            reason = finished.problem or (f"it ended with: {words[-1]}" if words else "it ended")
            found = f"no training step in {self._request.name} ({reason})"
            raise BadInput(expected, found, "give the script that trains, with its arguments")
        return evidence

    # trying

    def _trials(self, evidence: Evidence, base: tuple[Change, ...], number: int) -> Trials:
        steps = trial_steps(evidence)
        return Trials(
            self._executor,
            self._request.out / TRIALS / str(number),
            steps=steps,
            seconds=8 * TRIAL_SECONDS,
            base=base,
            until=self._until,
            told=self._told,
            known=self._made,
        )

    def _try(
        self,
        trials: Trials,
        evidence: Evidence,
        judgements: dict[str, Judgement],
        *,
        cured: bool,
    ) -> tuple[Evidence, dict[str, Judgement]]:
        """Run what suspected causes ask for: one seed to choose, all seeds to prove."""
        effects: dict[Change, Effect] = {}
        failed: dict[Change, str] = {}
        asked: set[tuple[Change, int]] = set()
        while self._tries and self._has_time(0.1):
            asking = wanted(judgements, evidence.cures)
            wishes = next_wishes(asking, effects, failed, asked, self._request.seeds)
            if not wishes:
                break
            changes, seeds = wishes
            asked |= {(change, seeds) for change in changes}
            on = "1 seed" if seeds == 1 else f"{seeds} seeds"
            self._told(f"trying {', '.join(c.sentence for c in changes)} on {on}")
            try:
                answers = trials.run(changes, seeds)
            except KeyboardInterrupt:
                self._interrupt()
                break
            for change, found in answers.items():
                if isinstance(found, Effect):
                    effects[change] = found
                else:
                    failed[change] = found
            evidence = replace(evidence, effects=effects, failed=failed)
            judgements = self._judge(evidence, cured=cured)
            if any(j.status is Status.PROVEN and j.harm for j in judgements.values()):
                # The rest was judged on a sick run: it is looked at again with the cure in.
                return evidence, judgements
        return self._confirm_benign(trials, evidence, judgements, cured=cured)

    def _confirm_benign(
        self,
        trials: Trials,
        evidence: Evidence,
        judgements: dict[str, Judgement],
        *,
        cured: bool,
    ) -> tuple[Evidence, dict[str, Judgement]]:
        """A fault that did not matter in a short trial may matter in a longer one."""
        for change, times in briefly_tried(judgements, len(evidence.steps)).items():
            if self.interrupted or not self._tries or not self._has_time(0.3):
                break
            self._told(f"{change.sentence} made no difference: trying it {times} times as long")
            try:
                found = trials.run_longer(change, self._request.seeds, times)
            except KeyboardInterrupt:
                self._interrupt()
                break
            # What came to no end leaves the shorter trial standing.
            if isinstance(found, Effect) and found.seeds < self._request.seeds:
                evidence = replace(evidence, longer={**evidence.longer, change: found})
            elif isinstance(found, Effect):
                evidence = replace(evidence, effects={**evidence.effects, change: found})
        return evidence, self._judge(evidence, cured=cured)

    def _judge(self, evidence: Evidence, *, cured: bool) -> dict[str, Judgement]:
        """Ask all judges; what a cure makes harmless does not stand in the way of trials."""
        judgements = judge_all(self._causes, evidence)
        if self._tries != self._request.trials:
            judgements = without_trials(judgements)
        return judgements if cured else stood_down(self._causes, judgements)

    def _new_cure(
        self, judgements: dict[str, Judgement], cures: tuple[Change, ...]
    ) -> Change | None:
        for judgement in judgements.values():
            cure = judgement.cure
            if judgement.status is Status.PROVEN and cure is not None and cure not in cures:
                return cure
        return None

    def _learns(
        self, evidence: Evidence, judgements: dict[str, Judgement]
    ) -> tuple[Evidence, Learning]:
        state = learning(evidence)
        # A wrong number in an evaluation says nothing of the training.
        harming = [judgements[c.id] for c in self._causes if c.stage is not Stage.EVALUATION]
        found = {Status.PROVEN, Status.SUSPECTED} & {j.status for j in harming}
        done = state.learns or found or self.interrupted or has_crashed(evidence)
        if done or not self._tries or not self._has_time(0.1):
            return evidence, state
        self._told("no cause found and the loss is not falling: trying to overfit one batch")
        trials = self._trials(evidence, (), 99)
        answer = trials.run([OVERFIT], 1)[OVERFIT]
        if isinstance(answer, Effect):
            evidence = replace(evidence, effects={**evidence.effects, OVERFIT: answer})
        return evidence, learning(evidence)

    # saying

    def _verdict(
        self, evidence: Evidence, judgements: dict[str, Judgement], state: Learning
    ) -> Verdict:
        known = [c for c in self._causes if c.id in judgements]
        judgements = explained(known, untried(judgements) if state.learns else judgements)
        order = ranked(known, judgements)
        learns = bool(state.learns) and not self.interrupted
        status = status_of(order, judgements, learns=learns)
        seconds = time.monotonic() - self._began
        notes = (state.sentence, *recognised(evidence))
        return Verdict(status, judgements, order, len(evidence.steps), seconds, notes)

    def _has_time(self, share: float) -> bool:
        return self._until - time.monotonic() > share * self._request.budget

    def _tell_ruled_out(self, judgements: dict[str, Judgement]) -> None:
        refuted = [j for j in judgements.values() if j.status is Status.REFUTED]
        self._told(RuledOut(len(refuted), len(judgements)))


def known_causes(only: Sequence[str]) -> list[Cause]:
    """The causes asked for, or all; BadInput if there is no such cause."""
    known = {c.id for c in all_causes()}
    for identifier in only:
        if identifier not in known:
            raise BadInput(
                "ids of causes", repr(identifier), "see `lossleuth causes` for all of them"
            )
    return [c for c in all_causes() if not only or c.id in only]
