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
from lossleuth.judge.judge import Circumstances, judge, judged_phases
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
        judged = judged_phases([looks[0].evidence for looks in self._phases])
        for done, present in enumerate(judged):
            self._gather_phase(self._trying(present, self._budget.part(len(judged) - done)))

    def _gather_phase(self, trying: Trying) -> None:
        phase = trying.evidence.phase
        if phase is not None:
            self._progress(f"{phase.sentence}:")
        self._progress(RuledOut.of(trying.judgements()))
        while True:
            # Cure a proven fault before trying anything else on a sick run.
            if trying.next_cure() is None:
                trying.try_suspicions()
            if trying.next_cure() is None:
                trying.measure()
                trying.challenge()
            cure = trying.next_cure()
            if cure is None or not self._look_again(trying, cure):
                break
        trying.try_one_batch()

    def _trying(self, present: int, part: Budget) -> Trying:
        """What makes the trials of a phase."""
        looks = self._phases[present]
        first, phase = self._phases[0][0].evidence, looks[0].evidence.phase
        return Trying(
            self._executor,
            self._request,
            self._causes,
            self._battery,
            self._progress,
            looks,
            budget=self._budget,
            part=part,
            earlier=sum(map(len, self._phases[:present])),
            lead=phase.first * usual_seconds(first) * LEAD_TIMES if phase is not None else 0.0,
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
