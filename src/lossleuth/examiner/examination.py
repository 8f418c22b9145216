"""From a program to a verdict: observe, judge, try, judge again.

This gathers the evidence; `judge` judges it and says what to try next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from lossleuth.catalogue import battery_for, chosen_causes
from lossleuth.examiner.early_proofs import EarlyProofs
from lossleuth.examiner.observing import Look, Observing
from lossleuth.examiner.progress import News, RuledOut
from lossleuth.examiner.request import Budget, Request
from lossleuth.examiner.saved_examination import SavedExamination, SavedLook
from lossleuth.examiner.trials import Measured, RunKey, Trials
from lossleuth.judge.challenging import next_challenge
from lossleuth.judge.choosing import (
    SCREENING_SEEDS,
    Wish,
    briefly_tried,
    challenge_steps,
    is_proven_by_trial,
    is_unexplained,
    next_cure,
    next_wish,
    trial_patience,
    trial_steps,
    usual_seconds,
    whole_steps,
)
from lossleuth.judge.judge import Circumstances, judge, judge_look, judge_looks, judged_phases
from lossleuth.judge.judging import Judgements, harmful, trials_wanted
from lossleuth.judge.learning import OVERFIT
from lossleuth.judge.verdict import Verdict
from lossleuth.observe.launch.executor import Executor
from lossleuth.types.cause import Cause
from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.evidence import Evidence

# At most this many looks: the first one, and those with cures applied.
MAX_LOOKS = 3
# Shares of the budget that must be left for a trial, a longer one, and a look with a cure.
TRIAL_SHARE, LONGER_SHARE, LOOK_SHARE = 0.1, 0.3, 0.25
# A later phase is reached within so many times what the steps before it usually take.
LEAD_TIMES = 2.0


class Examination:
    """One examination of one program."""

    def __init__(
        self,
        executor: Executor,
        request: Request,
        progress: Callable[[News], None] = lambda _: None,
        causes: Sequence[Cause] | None = None,
        battery: Sequence[Challenge] | None = None,
    ) -> None:
        self._executor = executor
        self._request = request
        self._progress = progress
        self._causes = chosen_causes(request.only) if causes is None else causes
        self._battery = battery_for(request.only) if battery is None else battery
        # All of it, and the part for the present phase.
        self._budget = self._part = Budget(request.budget)
        self._observing = Observing(executor, request, self._budget, progress)
        self._early = EarlyProofs(self._causes, request.run, progress)
        # Everything that was seen and tried so far, phase by phase; trials are made on the last
        # look at the present one.
        self._phases: list[list[Look]] = [[]]
        self._present = 0
        # Finished runs of all trials.
        self._made: dict[RunKey, Measured | str] = {}
        self.interrupted = False

    def run(self) -> Verdict:
        """Gather and judge; after Ctrl-C, judge what was seen so far."""
        try:
            self._gather()
        except KeyboardInterrupt:
            self._interrupt()
        self._saved().write(self._request.run)
        verdict = judge(
            self._causes,
            self._seen(),
            self._circumstances(),
            self._budget.spent,
            battery=self._battery,
        )
        self._early.withdraw(verdict)
        return verdict

    # gathering

    def _gather(self) -> None:
        with self._early if self._request.early else nullcontext():
            first = self._observing.first()
        self._phases = [[look] for look in first.by_phase()]
        judged = judged_phases([looks[0].evidence for looks in self._phases])
        for done, self._present in enumerate(judged):
            self._part = self._budget.part(len(judged) - done)
            self._gather_phase()

    def _gather_phase(self) -> None:
        phase = self._evidence.phase
        if phase is not None:
            self._progress(f"{phase.sentence}:")
        self._report_ruled_out()
        while True:
            # Cure a proven fault before trying anything else on a sick run.
            if self._next_cure() is None:
                self._try_suspicions()
            if self._next_cure() is None:
                self._challenge()
            cure = self._next_cure()
            if cure is None or not self._look_again(cure):
                break
        self._try_one_batch()

    def _look_again(self, cure: Change) -> bool:
        """Look again with one more cure, for a second fault; whether that worked."""
        if len(self._looks) == MAX_LOOKS or not self._part.has(LOOK_SHARE) or self._is_far:
            return False
        number = 1 + sum(len(looks) - 1 for looks in self._phases)
        self._progress(
            f"re-running with the fix {cure.sentence} applied, to look for a second fault"
        )
        try:
            cures = (*self._evidence.cures, cure)
            look = self._observing.cured(number, cures, self._evidence.phase, self._lead)
        except BadInput as reason:
            self._progress(f"with the fix {cure.sentence} applied it does not train: {reason}")
            return False
        self._looks.append(look)
        return True

    def _interrupt(self) -> None:
        self.interrupted = True
        unfinished = None if self._looks else self._observing.unfinished()
        if unfinished is not None:
            self._phases = [[look] for look in unfinished.by_phase()]
        self._progress("interrupted: judging what was seen so far")

    # deciding

    @property
    def _looks(self) -> list[Look]:
        """At the present phase."""
        return self._phases[self._present]

    @property
    def _lead(self) -> float:
        """Seconds that it takes to reach the present phase, at most."""
        first = self._phases[0][0].evidence
        phase = self._looks[0].evidence.phase
        return phase.first * usual_seconds(first) * LEAD_TIMES if phase is not None else 0.0

    @property
    def _is_far(self) -> bool:
        """Whether the present phase is reached only when there is no time left for it."""
        return self._lead > self._part.left / 2

    @property
    def _evidence(self) -> Evidence:
        """Of the last look."""
        return self._looks[-1].evidence

    def _judgements(self) -> Judgements:
        """What the last look says."""
        return judge_look(self._causes, self._evidence, self._circumstances())

    def _next_cure(self) -> Change | None:
        return next_cure(self._judgements(), self._evidence.cures)

    def _circumstances(self) -> Circumstances:
        by_hand = any(look.by_hand for looks in self._phases for look in looks)
        return Circumstances(by_hand=by_hand, interrupted=self.interrupted)

    def _may_try(self, share: float) -> bool:
        # Changes are made through optimizers and backward passes; some programs have none.
        possible = self._request.trials and not self._circumstances().by_hand
        return possible and self._part.has(share) and not self._is_far

    # trying

    def _try_suspicions(self) -> None:
        """Run what suspected causes ask for: one seed to choose, all seeds to prove."""
        number = sum(map(len, self._phases[: self._present])) + len(self._looks) - 1
        trials = self._trials(self._request.run.trials(number), self._evidence)
        asked: set[tuple[Change, tuple[int, ...]]] = set()
        while self._may_try(TRIAL_SHARE):
            evidence = self._evidence
            wanted = trials_wanted(self._judgements(), evidence.cures)
            wish = next_wish(wanted, evidence.effects, evidence.failed, asked, self._request.seeds)
            if wish is None:
                break
            asked |= {(change, wish.seeds) for change in wish.changes}
            self._carry_out(trials, wish)
            if is_proven_by_trial(self._judgements()):
                # The rest was judged on a sick run: look again with the cure.
                return
        self._confirm_benign(trials)

    def _confirm_benign(self, trials: Trials) -> None:
        """A fault that did not matter in a short trial may matter in a longer one."""
        steps = len(self._evidence.steps)
        for change, times in briefly_tried(self._judgements(), steps).items():
            if not self._may_try(LONGER_SHARE):
                break
            self._progress(f"{change.sentence} made no difference: trying it {times} times as long")
            found = trials.run_longer(change, range(self._request.seeds), times)
            known = self._evidence
            # If the longer trial did not finish, the shorter one stands.
            if isinstance(found, Effect) and found.seeds < self._request.seeds:
                self._update(replace(known, longer={**known.longer, change: found}))
            elif isinstance(found, Effect):
                self._update(replace(known, effects={**known.effects, change: found}))

    def _try_one_batch(self) -> None:
        """If nothing explains why a run does not learn, try to overfit one batch."""
        seen = [look.evidence for look in self._looks]
        known = judge_looks(self._causes, seen, self._circumstances())
        first = seen[0]
        if not self._may_try(TRIAL_SHARE) or not is_unexplained(self._causes, known, first):
            return
        self._progress("no cause found and the loss is not falling: trying to overfit one batch")
        trials = self._trials(self._request.run.overfit, first)
        found = trials.run([OVERFIT], SCREENING_SEEDS)[OVERFIT]
        if isinstance(found, Effect):
            self._update(replace(first, effects={**first.effects, OVERFIT: found}), 0)

    def _challenge(self) -> None:
        """Try a run that seems sound with every change that a sound one gains nothing from."""
        answered = len(self._looks) > 1 or harmful(self._causes, self._judgements())
        if not self._request.challenges or answered:
            return
        trials = self._trials(self._request.run.challenges(self._present), self._evidence)
        overhead = self._looks[0].overhead + self._lead
        steps = challenge_steps(self._evidence, self._part.left, overhead)
        asked: set[tuple[Change, tuple[int, ...], int]] = set()
        while self._may_try(LOOK_SHARE if is_proven_by_trial(self._judgements()) else TRIAL_SHARE):
            seeds = self._request.seeds
            whole = whole_steps(self._evidence, self._part.left, overhead, seeds)
            wish = next_challenge(
                self._battery, self._evidence, asked, seeds=seeds, steps=steps, whole=whole
            )
            if wish is None:
                break
            asked |= {(change, wish.seeds, wish.steps or steps) for change in wish.changes}
            self._carry_out(trials, wish)

    def _carry_out(self, trials: Trials, wish: Wish) -> None:
        names = ", ".join(change.sentence for change in wish.changes)
        seeds = "1 seed" if len(wish.seeds) == 1 else f"{len(wish.seeds)} seeds"
        length = "" if wish.steps is None else f", {wish.steps} steps"
        self._progress(f"trying {names} on {seeds}{length}")
        found = trials.run(wish.changes, wish.seeds, wish.steps)
        if self._part.left <= 0 or self._budget.is_over:
            # What ended for want of time has not failed.
            found = {change: one for change, one in found.items() if isinstance(one, Effect)}
        self._count(found)

    def _trials(self, directory: Path, evidence: Evidence) -> Trials:
        """Trials on top of a look."""
        steps = trial_steps(evidence)
        first = self._looks[0].evidence
        return Trials(
            self._executor,
            directory,
            steps=steps,
            seconds=trial_patience(evidence, steps, self._looks[0].overhead + self._lead),
            base=tuple(evidence.cures),
            first=evidence.phase.first if evidence.phase else 0,
            until=min(self._part.until, self._budget.runs_until),
            progress=self._progress,
            known=self._made,
            forked_after=None if evidence.phase else first.ending.made_before_training or None,
            observed=[math.nan if s.loss is None else s.loss for s in first.steps],
        )

    def _count(self, answers: dict[Change, Effect | str]) -> None:
        """Add the effects of trials, or why they failed, to the evidence."""
        effects = {c: found for c, found in answers.items() if isinstance(found, Effect)}
        failed = {c: found for c, found in answers.items() if isinstance(found, str)}
        known = self._evidence
        effects, failed = {**known.effects, **effects}, {**known.failed, **failed}
        self._update(replace(known, effects=effects, failed=failed))

    def _update(self, evidence: Evidence, number: int = -1) -> None:
        """Put evidence with other trials into a look: the last one, unless another is named."""
        self._looks[number] = replace(self._looks[number], evidence=evidence)

    # handing over

    def _seen(self) -> list[Evidence]:
        return [look.evidence for looks in self._phases for look in looks]

    def _saved(self) -> SavedExamination:
        return SavedExamination(
            looks=[
                SavedLook(
                    folders=[str(path.relative_to(self._request.out)) for path in look.directories],
                    cures=look.evidence.cures,
                    effects=look.evidence.effects,
                    longer=look.evidence.longer,
                    failed=look.evidence.failed,
                    phase=look.evidence.phase,
                )
                for looks in self._phases
                for look in looks
            ],
            only=self._request.only,
            circumstances=self._circumstances(),
            first_proof=self._early.first,
        )

    def _report_ruled_out(self) -> None:
        self._progress(RuledOut.of(self._judgements()))
