"""From a program to a verdict: observe, judge, try, judge again.

This gathers the evidence; `judge` judges it and says what to try next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from lossleuth.catalogue import battery_for, chosen_causes
from lossleuth.examiner.early_proofs import EarlyProofs
from lossleuth.examiner.observing import Look, Observing
from lossleuth.examiner.progress import News, RuledOut
from lossleuth.examiner.request import Budget, Request
from lossleuth.examiner.saved_examination import SavedExamination, SavedLook
from lossleuth.examiner.trials import Runs
from lossleuth.examiner.trying import LOOK_SHARE, Trying
from lossleuth.judge.choosing import usual_seconds
from lossleuth.judge.judge import Circumstances, challenged_phases, judge, judged_phases
from lossleuth.judge.verdict import Verdict
from lossleuth.observe.launch.executor import Executor
from lossleuth.types.cause import Cause
from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change
from lossleuth.types.errors import BadInput
from lossleuth.types.evidence import Evidence

# At most this many looks: the first one, and those with cures applied.
MAX_LOOKS = 3
# A later phase is reached within so many times what the steps before it usually take.
LEAD_TIMES = 2.0
# What a phase is given that does again what an earlier one did, where that one is given 1. It is
# only asked what was seen of it. Picked by hand.
AGAIN_SHARE = 0.3


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
        self._budget = Budget(request.budget)
        self._observing = Observing(executor, request, self._budget, progress)
        self._early = EarlyProofs(self._causes, request.run, progress)
        # Everything that was seen and tried so far, phase by phase.
        self._phases: list[list[Look]] = [[]]
        # Finished runs of all trials.
        self._made: Runs = {}
        self.interrupted = False

    def run(self) -> Verdict:
        """Gather and judge; after Ctrl-C, judge what was seen so far."""
        try:
            self._gather()
        except KeyboardInterrupt:
            self._interrupt()
        finally:
            # They are large, and what they were kept for is measured.
            self._request.run.batches.unlink(missing_ok=True)
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
        firsts = [looks[0].evidence for looks in self._phases]
        judged, challenged = judged_phases(firsts), set(challenged_phases(firsts))
        trying = [self._trying(present, does_again=present not in challenged) for present in judged]
        # What is suspected anywhere comes first; then phases that do not even seem to learn.
        self._gather_phases(trying, self._try_suspicions)
        if len(trying) > 1 and any(one.is_proven for one in trying):
            # The script is sick, whatever the other phases would stand.
            return
        trying.sort(key=lambda one: one.learns)
        self._gather_phases(trying, self._challenge)

    def _gather_phases(self, phases: Sequence[Trying], gather: Callable[[Trying], None]) -> None:
        """One phase after the other, each within its part of what is left."""
        weights = [AGAIN_SHARE if one.does_again else 1.0 for one in phases]
        for done, trying in enumerate(phases):
            trying.part = self._budget.part(weights[done] / sum(weights[done:]))
            gather(trying)

    def _try_suspicions(self, trying: Trying) -> None:
        """Try what is suspected, and look again with each cure."""
        phase = trying.evidence.phase
        if phase is not None:
            self._progress(f"{phase.sentence}:")
        self._progress(RuledOut.of(trying.judgements()))
        trying.try_suspicions()
        self._follow_cures(trying)

    def _challenge(self, trying: Trying) -> None:
        """Try what seems sound so far with the standing battery."""
        if trying.next_cure() is None:
            trying.measure()
            trying.challenge()
        self._follow_cures(trying)
        trying.try_one_batch()

    def _follow_cures(self, trying: Trying) -> None:
        """Cure a proven fault before trying anything else on a sick run."""
        while (cure := trying.next_cure()) is not None and self._look_again(trying, cure):
            if trying.next_cure() is None:
                trying.try_suspicions()

    def _trying(self, present: int, *, does_again: bool) -> Trying:
        """What makes the trials of a phase."""
        looks = self._phases[present]
        first, phase = self._phases[0][0].evidence, looks[0].evidence.phase
        return Trying(
            self._executor,
            self._request,
            self._causes,
            () if does_again else self._battery,
            self._progress,
            looks,
            budget=self._budget,
            part=self._budget,
            earlier=present * MAX_LOOKS,
            lead=phase.first * usual_seconds(first) * LEAD_TIMES if phase is not None else 0.0,
            does_again=does_again,
            made=self._made,
        )

    def _look_again(self, trying: Trying, cure: Change) -> bool:
        """Look again with one more cure, for a second fault; whether that worked."""
        looks, evidence = trying.looks, trying.evidence
        if len(looks) == MAX_LOOKS or not trying.part.has(LOOK_SHARE) or trying.is_far:
            return False
        number = 1 + sum(len(looks) - 1 for looks in self._phases)
        self._progress(
            f"re-running with the fix {cure.sentence} applied, to look for a second fault"
        )
        try:
            cures = (*evidence.cures, cure)
            look = self._observing.cured(number, cures, evidence.phase, trying.lead)
        except BadInput as reason:
            self._progress(f"with the fix {cure.sentence} applied it does not train: {reason}")
            return False
        looks.append(look)
        return True

    def _interrupt(self) -> None:
        self.interrupted = True
        unfinished = None if any(self._phases) else self._observing.unfinished()
        if unfinished is not None:
            self._phases = [[look] for look in unfinished.by_phase()]
        self._progress("interrupted: judging what was seen so far")

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
                    yardstick=look.evidence.yardstick,
                )
                for looks in self._phases
                for look in looks
            ],
            only=self._request.only,
            circumstances=self._circumstances(),
            first_proof=self._early.first,
        )

    def _circumstances(self) -> Circumstances:
        by_hand = any(look.by_hand for looks in self._phases for look in looks)
        return Circumstances(by_hand=by_hand, interrupted=self.interrupted)
