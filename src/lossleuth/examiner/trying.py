"""Makes the trials of one phase of a program: of suspicions, of challenges, of one batch alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lossleuth.examiner.measuring import yardstick_of
from lossleuth.examiner.observing import Look
from lossleuth.examiner.request import Budget, Request
from lossleuth.examiner.trials import Runs, Trials
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
    whole_steps,
)
from lossleuth.judge.judge import Circumstances, judge_look, judge_looks
from lossleuth.judge.judging import Judgements, harmful, trials_wanted
from lossleuth.judge.learning import OVERFIT, learning
from lossleuth.observe.launch.executor import Executor
from lossleuth.types.cause import Cause
from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status

# Shares of the budget that must be left for a trial, a longer one, and a look with a cure.
TRIAL_SHARE, LONGER_SHARE, LOOK_SHARE = 0.1, 0.3, 0.25
# Share of the budget that references on its batches may take, and of what is left of it.
YARDSTICK_SHARE, SHARE_OF_LEFT = 0.15, 0.3


@dataclass
class Trying:
    """Adds what trials show to the looks at a phase; the last look is the one they are made on."""

    executor: Executor
    request: Request
    causes: Sequence[Cause]
    battery: Sequence[Challenge]
    progress: Callable[[str], None]
    looks: list[Look]
    # For all of the examination, and for this phase of it.
    budget: Budget
    part: Budget
    # Number of its first trials, and seconds that it takes to come to this phase.
    earlier: int = 0
    lead: float = 0.0
    # Whether this phase does again what an earlier one did.
    does_again: bool = False
    # Finished runs of all trials, of other phases too.
    made: Runs = field(default_factory=dict)

    @property
    def evidence(self) -> Evidence:
        """Of the last look."""
        return self.looks[-1].evidence

    @property
    def is_far(self) -> bool:
        """Whether the phase is reached only when there is no time left for it."""
        return self.lead > self.part.left / 2

    @property
    def circumstances(self) -> Circumstances:
        """As far as trials depend on them."""
        return Circumstances(by_hand=any(look.by_hand for look in self.looks))

    def judgements(self) -> Judgements:
        """What the last look says."""
        return judge_look(self.causes, self.evidence, self.circumstances)

    @property
    def learns(self) -> bool:
        """Whether the run, as it is, is known to learn."""
        return bool(learning(self.looks[0].evidence).learns)

    @property
    def is_proven(self) -> bool:
        """Whether a fault was proven."""
        return any(j.status is Status.PROVEN for j in self.judgements().values())

    def next_cure(self) -> Change | None:
        """The cure of a proven fault with which the program was not looked at yet."""
        return next_cure(self.judgements(), self.evidence.cures)

    def _may_try(self, share: float) -> bool:
        # Changes are made through optimizers and backward passes; some programs have none.
        possible = self.request.trials and not self.circumstances.by_hand
        return possible and self.part.has(share) and not self.is_far

    def try_suspicions(self) -> None:
        """Run what suspected causes ask for: one seed to choose, others to prove."""
        number = self.earlier + len(self.looks) - 1
        trials = self._trials(self.request.run.trials(number), self.evidence)
        asked: set[tuple[Change, tuple[int, ...]]] = set()
        while self._may_try(TRIAL_SHARE):
            evidence = self.evidence
            wanted = trials_wanted(self.judgements(), evidence.cures)
            wish = next_wish(wanted, evidence.effects, evidence.failed, asked, self.request.seeds)
            if wish is None:
                break
            asked |= {(change, wish.seeds) for change in wish.changes}
            self._carry_out(trials, wish)
            if is_proven_by_trial(self.judgements()):
                # The rest was judged on a sick run: look again with the cure.
                return
        self._confirm_benign(trials)

    def _confirm_benign(self, trials: Trials) -> None:
        """A fault that did not matter in a short trial may matter in a longer one."""
        steps = len(self.evidence.steps)
        for change, times in briefly_tried(self.judgements(), steps).items():
            if not self._may_try(LONGER_SHARE):
                break
            self.progress(
                f"{change.sentence} made hardly a difference: trying it {times} times as long"
            )
            found = trials.run_longer(change, range(self.request.seeds), times)
            known = self.evidence
            # If the longer trial did not finish, the shorter one stands.
            if isinstance(found, Effect) and found.seeds < self.request.seeds:
                self._update(replace(known, longer={**known.longer, change: found}))
            elif isinstance(found, Effect):
                self._update(replace(known, effects={**known.effects, change: found}))

    @property
    def _seems_sound(self) -> bool:
        answered = len(self.looks) > 1 or harmful(self.causes, self.judgements())
        return self.request.challenges and not answered

    def measure(self) -> None:
        """Train references on the batches of a run that seems sound."""
        # Who wants no trials wants the quick answer; a phase that does another's work again is
        # compared with that.
        wanted = self.request.trials and not self.does_again and self._seems_sound
        if not wanted or not self.part.has(LOOK_SHARE):
            return
        first = self.looks[0]
        seconds = min(YARDSTICK_SHARE * self.budget.whole, SHARE_OF_LEFT * self.part.left)
        found = yardstick_of(first.evidence, self.request.run.batches, seconds, self.progress)
        self._update(replace(first.evidence, yardstick=found), 0)

    def challenge(self) -> None:
        """Try a run that seems sound with every change that a sound one gains nothing from."""
        if not self._seems_sound:
            return
        trials = self._trials(self.request.run.challenges(self.earlier), self.evidence)
        overhead = self.looks[0].overhead + self.lead
        steps = challenge_steps(self.evidence, self.part.left, overhead)
        asked: set[tuple[Change, tuple[int, ...], int]] = set()
        while self._may_try(LOOK_SHARE if is_proven_by_trial(self.judgements()) else TRIAL_SHARE):
            seeds = self.request.seeds
            whole = whole_steps(self.evidence, self.part.left, overhead, seeds)
            wish = next_challenge(
                self.battery, self.evidence, asked, seeds=seeds, steps=steps, whole=whole
            )
            if wish is None:
                break
            asked |= {(change, wish.seeds, wish.steps or steps) for change in wish.changes}
            self._carry_out(trials, wish)

    def try_one_batch(self) -> None:
        """If nothing explains why a run does not learn, try to overfit one batch."""
        seen = [look.evidence for look in self.looks]
        known = judge_looks(self.causes, seen, self.circumstances)
        first = seen[0]
        if not self._may_try(TRIAL_SHARE) or not is_unexplained(self.causes, known, first):
            return
        self.progress("no cause found and the loss is not falling: trying to overfit one batch")
        trials = self._trials(self.request.run.overfit, first)
        found = trials.run([OVERFIT], SCREENING_SEEDS)[OVERFIT]
        if isinstance(found, Effect):
            self._update(replace(first, effects={**first.effects, OVERFIT: found}), 0)

    def _carry_out(self, trials: Trials, wish: Wish) -> None:
        names = ", ".join(change.sentence for change in wish.changes)
        seeds = "1 seed" if len(wish.seeds) == 1 else f"{len(wish.seeds)} seeds"
        length = "" if wish.steps is None else f", {wish.steps} steps"
        self.progress(f"trying {names} on {seeds}{length}")
        found = trials.run(wish.changes, wish.seeds, wish.steps)
        if self.part.left <= 0 or self.budget.is_over:
            # What ended for want of time has not failed.
            found = {change: one for change, one in found.items() if isinstance(one, Effect)}
        self._count(found)

    def _trials(self, directory: Path, evidence: Evidence) -> Trials:
        """Trials on top of a look."""
        steps = trial_steps(evidence, self.part.left)
        first = self.looks[0].evidence
        return Trials(
            self.executor,
            directory,
            steps=steps,
            seconds=trial_patience(evidence, steps, self.looks[0].overhead + self.lead),
            base=tuple(evidence.cures),
            first=evidence.phase.first if evidence.phase else 0,
            until=min(self.part.until, self.budget.runs_until),
            progress=self.progress,
            known=self.made,
            forked_after=None if evidence.phase else first.ending.made_before_training or None,
            observed=[math.nan if s.loss is None else s.loss for s in first.steps],
        )

    def _count(self, answers: dict[Change, Effect | str]) -> None:
        """Add the effects of trials, or why they failed, to the evidence."""
        effects = {c: found for c, found in answers.items() if isinstance(found, Effect)}
        failed = {c: found for c, found in answers.items() if isinstance(found, str)}
        known = self.evidence
        effects, failed = {**known.effects, **effects}, {**known.failed, **failed}
        self._update(replace(known, effects=effects, failed=failed))

    def _update(self, evidence: Evidence, number: int = -1) -> None:
        """Put evidence with other trials into a look: the last one, unless another is named."""
        self.looks[number] = replace(self.looks[number], evidence=evidence)
