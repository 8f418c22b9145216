"""Looking at a program, and what is kept of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from small_examinations import Recorded, Silent

from lossleuth.examiner.observing import AGAIN_SHARE, MAX_TAPED_STEPS, WINDOWS, Observing
from lossleuth.examiner.request import Budget, Request
from lossleuth.files import make_directory
from lossleuth.judge.choosing import MAX_TRIAL_STEPS
from lossleuth.observe.launch.executor import RunOutcome, RunSpec
from lossleuth.observe.steps.pacing import EARLY
from lossleuth.record.write import RecordWriter
from lossleuth.types.change import Change
from lossleuth.types.errors import BadInput
from lossleuth.types.phases import Phase


def observing(folder: Path, executor: Recorded, steps: int | None = 200) -> Observing:
    request = Request("train.py", folder, steps=steps)
    return Observing(executor, request, Budget(request.budget), lambda _: None)


def level(plan: RunSpec) -> Sequence[float]:
    return [3.0] * (plan.steps or 30)


def test_a_first_look_records_the_steps_that_the_run_has(tmp_path: Path) -> None:
    executor = Recorded(level)
    look = observing(tmp_path, executor, steps=30).first()
    assert (look.directories, look.by_hand) == ((tmp_path / "observed",), False)
    assert [step.step for step in look.evidence.recorded] == [e for e in EARLY if e < 30]
    assert executor.calls[0][0].seconds == pytest.approx(0.4 * 120.0)


@pytest.mark.parametrize(
    ("cure", "steps"),
    [("hold_lr", MAX_TRIAL_STEPS), ("shift_labels", MAX_TAPED_STEPS)],
)
def test_a_look_with_a_cure_in_is_short(tmp_path: Path, cure: str, steps: int) -> None:
    executor = Recorded(level)
    cures = (Change.of(cure),)
    look = observing(tmp_path, executor).cured(2, cures)
    (plan,) = executor.calls[0]
    assert (plan.directory, plan.steps, plan.changes) == (tmp_path / "cured2", steps, cures)
    assert look.evidence.cures == cures


def test_a_bad_step_is_part_of_the_look(tmp_path: Path) -> None:
    executor = Recorded(lambda plan: [3.0] * 9 + [math.nan] * 3)
    look = observing(tmp_path, executor, steps=12).first()
    assert [path.name for path in look.directories] == ["observed", "observed-bad"]
    assert [step.step for step in look.evidence.recorded] == [0, 1, 4, 9]


def test_of_an_interrupted_look_the_steps_that_were_made_are_kept(tmp_path: Path) -> None:
    executor = Recorded(lambda plan: [3.0, 2.9])
    assert observing(tmp_path, executor).unfinished() is None
    observing(tmp_path, executor).first()
    look = observing(tmp_path, executor).unfinished()
    assert look is not None
    assert (len(look.evidence.steps), look.by_hand) == (2, False)


def test_a_look_at_a_later_phase_begins_there(tmp_path: Path) -> None:
    executor = Recorded(level)
    phase = Phase(2, 2, 10, 59)
    look = observing(tmp_path, executor).cured(1, (Change.of("hold_lr"),), phase, lead=7.0)
    (plan,) = executor.calls[0]
    assert (plan.from_step, plan.steps, plan.tape) == (10, 60, (11, 34))
    assert plan.seconds == pytest.approx(0.4 * 120.0 + 7.0, rel=0.01)
    assert look.evidence.phase == phase
    assert [step.step for step in look.evidence.steps] == list(range(50))
    assert [step.step for step in look.evidence.recorded] == [1, 24]


def test_a_phase_that_is_not_reached_with_a_cure_in_is_refused(tmp_path: Path) -> None:
    executor = Recorded(lambda plan: [3.0] * 8)
    with pytest.raises(BadInput, match="from step 11 on"):
        observing(tmp_path, executor).cured(1, (Change.of("hold_lr"),), Phase(2, 2, 10, 59))


def test_a_cure_with_which_nothing_trains_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="did not import torch"):
        observing(tmp_path, Silent(level)).cured(1, (Change.of("hold_lr"),))


def test_without_a_number_of_steps_a_look_goes_on_to_the_end(tmp_path: Path) -> None:
    executor = Recorded(level)
    look = observing(tmp_path, executor, steps=None).first()
    (plan,) = executor.calls[0]
    assert (plan.steps, plan.paced, plan.tape) == (None, True, (0,))
    assert len(look.evidence.steps) == 30


class Unseen(Recorded):
    """A program in which nothing is seen unless updates by hand are looked for."""

    def _write(self, plan: RunSpec) -> RunOutcome:
        if plan.by_hand:
            return super()._write(plan)
        Silent(self._losses)._write(plan)
        return RunOutcome(plan, 0, 1.0)


def test_by_hand_the_steps_to_record_are_known_beforehand(tmp_path: Path) -> None:
    executor = Unseen(level)
    observing(tmp_path, executor, steps=100).first()
    (plan,) = executor.calls[1]
    assert (plan.paced, plan.tape) == (False, tuple(w for w in WINDOWS if w < 100))


@pytest.mark.parametrize(("seconds", "again"), [(0.01, True), (10.0, False)])
def test_the_way_to_an_evaluation_is_gone_again_where_it_is_short(
    tmp_path: Path, seconds: float, again: bool
) -> None:
    class Evaluated(Recorded):
        def _write(self, plan: RunSpec) -> RunOutcome:
            make_directory(plan.directory)
            writer = RecordWriter.create(plan.directory, {"script": "train.py"}, print)
            for step in range(30):
                writer.step({"step": step, "loss": 3.0, "seconds": seconds}, None)
            writer.end({"how": "end of script", "evaluated": [29]})
            return RunOutcome(plan, 0, 1.0)

    executor = Evaluated(level)
    observing(tmp_path, executor, steps=None).first()
    assert 29 * 0.01 < AGAIN_SHARE * 120.0 < 29 * 10.0
    assert [(plan.tape, plan.paced) for (plan,) in executor.calls[1:]] == [((29,), False)] * again
