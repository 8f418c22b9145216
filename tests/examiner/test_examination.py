"""The way from a run to a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from small_examinations import Recorded, Silent, always, cause, curable, says

from lossleuth.causes.reasoning import decided_by_trial
from lossleuth.examiner.examination import Examination
from lossleuth.examiner.progress import RuledOut
from lossleuth.examiner.rejudge import rejudge
from lossleuth.examiner.request import Request
from lossleuth.judge.choosing import MAX_TRIAL_STEPS
from lossleuth.judge.learning import OVERFIT
from lossleuth.judge.verdict import Verdict
from lossleuth.observe.launch.executor import RunOutcome, RunSpec
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.errors import BadInput
from lossleuth.types.judgement import Stage, Status, Wrongness

ONE, TWO = Change.of("clear_gradients"), Change.of("scale_lr", factor=0.1)


def examined(
    folder: Path,
    executor: Recorded,
    causes: Sequence[Cause],
    **more: Any,
) -> tuple[Verdict, Examination, list[str]]:
    news: list[str | RuledOut] = []
    request = Request("train.py", folder / "out", **{"steps": 30, "budget": 60.0, **more})
    examination = Examination(executor, request, news.append, causes, ())
    return examination.run(), examination, [str(item) for item in news]


def flat(plan: RunSpec) -> list[float]:
    """Learns nothing, unless both faults are cured."""
    seed = plan.seed_shift / 1e5
    if ONE in plan.changes and TWO in plan.changes:
        return [3.0 - 0.1 * i + seed for i in range(30)]
    return [3.0 - 1.0 * (ONE in plan.changes) + seed] * 30


def falling(plan: RunSpec) -> list[float]:
    return [3.0 - 0.1 * i for i in range(30)]


def test_a_run_that_learns_and_shows_nothing_is_healthy(tmp_path: Path) -> None:
    executor = Recorded(falling)
    found, _, progress = examined(tmp_path, executor, [cause("a", always(says(Status.REFUTED)))])
    assert (found.status, found.exit_code, found.steps) == ("healthy", 0, 30)
    assert len(executor.calls) == 1
    (plan,) = executor.calls[0]
    assert (plan.tape, plan.paced, plan.steps) == ((0,), True, 30)
    assert str(RuledOut(1, 1)) in progress


def test_a_suspicion_is_tried_on_all_seeds_and_proven(tmp_path: Path) -> None:
    executor = Recorded(flat)
    found, _, _ = examined(tmp_path, executor, [cause("a", curable(ONE))])
    assert found.status == "proven"
    harm = found.judgements["a"].harm
    assert harm is not None
    assert (harm.nats, harm.seeds) == (pytest.approx(1.0), 3)
    assert found.exit_code == 1


def test_a_second_fault_is_found_with_the_first_cured(tmp_path: Path) -> None:
    executor = Recorded(flat)
    causes = [
        cause("a", curable(ONE)),
        cause("b", lambda e: curable(TWO)(e) if e.losses[0] < 2.5 else says(Status.REFUTED)),
    ]
    found, _, progress = examined(tmp_path, executor, causes)
    assert found.ranked == ["a", "b"]
    assert {found.judgements[i].status for i in ("a", "b")} == {Status.PROVEN}
    assert (
        "re-running with the fix clear_gradients() applied, to look for a second fault" in progress
    )
    cured = [call[0] for call in executor.calls if call[0].directory.name.startswith("cured")]
    assert [plan.changes for plan in cured] == [(ONE,), (ONE, TWO)]
    assert {plan.steps for plan in cured} == {min(30, MAX_TRIAL_STEPS)}


def test_without_trials_a_suspicion_is_no_answer(tmp_path: Path) -> None:
    executor = Recorded(flat)
    found, _, _ = examined(tmp_path, executor, [cause("a", curable(ONE))], trials=False)
    assert (found.status, len(executor.calls)) == ("cannot_tell", 1)
    assert "No trial was made" in found.judgements["a"].because


def test_what_no_cause_explains_is_tried_on_one_batch_and_left_open(tmp_path: Path) -> None:
    executor = Recorded(flat)
    found, _, _ = examined(tmp_path, executor, [cause("a", always(says(Status.REFUTED)))])
    assert (found.status, found.exit_code) == ("cannot_tell", 0)
    assert [plan.changes for plan in executor.calls[-1]] == [(), (OVERFIT,)]
    assert "overfitting one batch" in found.notes[0]


def test_a_judge_that_fails_is_named_and_does_not_turn_the_light_green(tmp_path: Path) -> None:
    def fail(_evidence: object) -> Any:
        raise ZeroDivisionError("x")

    found, _, _ = examined(tmp_path, Recorded(falling), [cause("a", fail)])
    assert found.of(Status.ERRORED) == ["a"]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_interruption_ends_with_what_is_known(tmp_path: Path, at: int) -> None:
    executor = Recorded(flat, interrupted_at=at)
    found, examination, progress = examined(tmp_path, executor, [cause("a", curable(ONE))])
    assert examination.interrupted
    assert progress[-1] == "interrupted: judging what was seen so far"
    # Before anything was seen; during the trial; during the look with the cure in.
    assert found.status == {1: "cannot_tell", 2: "cannot_tell", 3: "proven"}[at]
    assert len(executor.calls) == at


def test_trials_that_were_made_before_an_interruption_still_count(tmp_path: Path) -> None:
    def harmless(plan: RunSpec) -> list[float]:
        return [3.0 + plan.seed_shift / 1e5] * 30

    executor = Recorded(harmless, interrupted_at=3)
    causes = [cause("a", curable(ONE)), cause("b", curable(TWO))]
    found, examination, _ = examined(tmp_path, executor, causes)
    assert examination.interrupted
    assert found.judgements["a"].status is Status.REFUTED
    assert found.judgements["b"].status is Status.UNTESTED


def test_a_cure_that_keeps_the_program_from_training_does_not_undo_the_proof(
    tmp_path: Path,
) -> None:
    def starved(plan: RunSpec) -> list[float]:
        return [] if plan.directory.name.startswith("cured") else flat(plan)

    found, _, progress = examined(tmp_path, Recorded(starved), [cause("a", curable(ONE))])
    assert found.status == "proven"
    assert progress[-1].startswith("with the fix clear_gradients() applied it does not train: ")


def test_the_first_step_that_goes_wrong_is_recorded_in_a_second_run(tmp_path: Path) -> None:
    executor = Recorded(lambda plan: [3.0] * 9 + [math.nan] * 21)
    causes = [cause("a", lambda e: says(Status.REFUTED, str(len(e.recorded))))]
    found, _, _ = examined(tmp_path, executor, causes, trials=False)
    (again,) = executor.calls[1]
    assert (again.tape, again.steps) == ((9,), 10)
    # Windows 0, 1, 4 and 16 of the first run, and the bad one.
    assert found.judgements["a"].because == "5"


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        (Recorded(lambda plan: []), r"no training step in train.py \(it ended with: the last line"),
        (Silent(flat), "did not import torch; it ended with: ImportError: no torch"),
    ],
)
def test_what_does_not_train_is_refused_in_one_sentence(
    tmp_path: Path, executor: Recorded, said: str
) -> None:
    with pytest.raises(BadInput, match=said) as refusal:
        examined(tmp_path, executor, [])
    assert str(refusal.value).startswith("expected a script that trains, found ")


def test_a_proof_that_voids_trials_leaves_the_rest_untried(tmp_path: Path) -> None:
    causes = [
        cause("offset", always(says(Status.PROVEN)), voids_trials=True),
        cause("rate", curable(ONE), Stage.OPTIMIZER),
    ]
    executor = Recorded(flat)
    found, _, _ = examined(tmp_path, executor, causes)
    assert found.judgements["rate"].status is Status.UNTESTED
    assert len(executor.calls) == 1


@pytest.mark.parametrize(
    ("change", "steps"), [(ONE, 160), (Change.of("follow_true_gradient"), 182)], ids=str
)
def test_a_fault_that_does_not_matter_is_tried_for_longer(
    tmp_path: Path, change: Change, steps: int
) -> None:
    """Harm that shows only in the end: in a short trial there is none."""

    def late(plan: RunSpec) -> list[float]:
        fall = 1.0 if plan.steps >= steps and change in plan.changes else 0.0
        return [3.0 - fall * i / plan.steps + plan.seed_shift / 1e5 for i in range(plan.steps)]

    fault = says(Status.SUSPECTED, wrongness=Wrongness("gap", 1.0, 0.0, 0.0))
    known = [cause("a", lambda evidence: decided_by_trial(evidence, fault, [change]))]
    found, _, progress = examined(tmp_path, Recorded(late), known, steps=200)
    assert any("times as long" in sentence for sentence in progress)
    assert found.judgements["a"].status is Status.PROVEN
    harm = found.judgements["a"].harm
    assert harm is not None
    assert harm.steps == steps


def test_a_longer_pair_without_a_difference_is_reported_and_ends_it(tmp_path: Path) -> None:
    fault = says(Status.SUSPECTED, wrongness=Wrongness("gap", 1.0, 0.0, 0.0))
    known = [cause("a", lambda evidence: decided_by_trial(evidence, fault, [ONE]))]

    def hardly(plan: RunSpec) -> list[float]:
        less = 1e-3 * len(plan.changes) - plan.seed_shift / 1e5
        return [3.0 - less - i / plan.steps for i in range(plan.steps)]

    executor = Recorded(hardly)
    found, _, _ = examined(tmp_path, executor, known, steps=200)
    assert found.judgements["a"].status is Status.BENIGN
    assert "nats in one pair of 160 steps" in found.judgements["a"].because
    assert sum(len(plans) for plans in executor.calls if plans[0].steps == 160) == 2


class OnlyByHand(Recorded):
    """A program in which nothing is seen unless updates by hand are looked for."""

    def _write(self, plan: RunSpec) -> RunOutcome:
        if plan.by_hand:
            return super()._write(plan)
        Silent(self._losses)._write(plan)
        return RunOutcome(plan, 0, 1.0)


def test_a_program_without_autograd_is_looked_at_once_more(tmp_path: Path) -> None:
    executor = OnlyByHand(falling)
    found, _, progress = examined(tmp_path, executor, [cause("a", curable(ONE))])
    assert found.status == "healthy"
    assert any("made by hand" in sentence for sentence in progress)
    assert [plan.by_hand for (plan,) in executor.calls] == [False, True]
    # Judged again from what was saved, it is that look which counts.
    assert rejudge(tmp_path / "out").steps == found.steps


def test_what_cannot_be_changed_from_outside_is_not_tried(tmp_path: Path) -> None:
    executor = OnlyByHand(flat)
    found, _, _ = examined(tmp_path, executor, [cause("a", curable(ONE))])
    assert found.status == "cannot_tell"
    assert len(executor.calls) == 2


def test_a_fault_that_is_plain_is_cured_before_anything_is_tried(tmp_path: Path) -> None:
    """What else seems wrong is tried where the fault is not."""
    plain = cause("plain", lambda e: says(Status.REFUTED if e.cures else Status.PROVEN, cure=ONE))
    found, _, progress = examined(tmp_path, Recorded(flat), [plain, cause("b", curable(TWO))])
    assert found.ranked == ["plain", "b"]
    looks = [i for i, sentence in enumerate(progress) if "re-running" in sentence]
    tries = [i for i, sentence in enumerate(progress) if "trying" in sentence]
    assert looks[0] < tries[0]
