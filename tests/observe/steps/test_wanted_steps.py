"""Which steps are recorded."""

from __future__ import annotations

from lossleuth.observe.steps.pacing import Pacing
from lossleuth.observe.steps.wanted_steps import EARLY, MAX_PHASES, PHASE_STEPS, WantedSteps


def test_a_step_is_taken_once_and_can_be_put_back() -> None:
    wanted = WantedSteps([1, 3])
    assert [n for n in range(5) if n in wanted] == [1, 3]
    wanted.take(1)
    assert 1 not in wanted
    wanted.put_back(1)
    assert 1 in wanted


def test_all_are_recorded_on_demand_and_only_those_asked_for_are_looked_at() -> None:
    wanted = WantedSteps([1])
    wanted.want_all()
    assert 17 in wanted
    assert wanted.is_looked_at(1)
    assert not wanted.is_looked_at(17)


def test_a_late_optimizer_begins_a_phase_as_often_as_there_is_room() -> None:
    wanted = WantedSteps([1])
    wanted.new_phase(EARLY)
    assert EARLY + PHASE_STEPS[0] not in wanted
    for phase in range(1, MAX_PHASES + 2):
        wanted.new_phase(1000 * phase)
    begun = [phase for phase in range(1, MAX_PHASES + 2) if 1000 * phase + PHASE_STEPS[0] in wanted]
    assert begun == list(range(1, MAX_PHASES + 1))


def test_where_nothing_is_recorded_no_phase_is() -> None:
    wanted = WantedSteps([])
    wanted.new_phase(100)
    assert 100 + PHASE_STEPS[0] not in wanted


def test_steps_that_are_due_are_looked_at_and_those_of_an_evaluation_are_not() -> None:
    wanted = WantedSteps([0], Pacing(1e6))
    assert [n for n in range(20) if n in wanted] == [0, 1, 4, 16]
    for step in (0, 1, 3):
        wanted.take(step)
        wanted.over()
    assert [n for n in range(20) if wanted.is_looked_at(n)] == [0, 1]
    assert [n for n in range(20) if n in wanted] == [4, 16]


def test_a_step_that_was_due_and_not_recorded_is_still_wanted() -> None:
    wanted = WantedSteps([0], Pacing(1e6))
    wanted.take(1)
    wanted.put_back(1)
    assert 1 in wanted and wanted.is_looked_at(1)
