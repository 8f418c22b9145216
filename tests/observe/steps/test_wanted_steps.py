"""Which steps are recorded."""

from __future__ import annotations

from lossleuth.observe.sampling import FIRST_STEPS
from lossleuth.observe.steps.pacing import Pacing
from lossleuth.observe.steps.wanted_steps import APART, MAX_PHASES, PHASE_STEPS, WantedSteps


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
    wanted.new_phase(APART - 1)
    assert APART - 1 + PHASE_STEPS[0] not in wanted
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
    assert [n for n in range(17) if n in wanted] == [0, 1, 4, 16]
    for step in (0, 1, 3):
        wanted.take(step)
        wanted.over()
    assert [n for n in range(20) if wanted.is_looked_at(n)] == [0, 1]
    assert [n for n in range(17) if n in wanted] == [4, 16]


def test_a_step_that_was_due_and_not_recorded_is_still_wanted() -> None:
    wanted = WantedSteps([0], Pacing(1e6))
    wanted.take(1)
    wanted.put_back(1)
    assert 1 in wanted and wanted.is_looked_at(1)


def test_a_phase_is_paced_from_its_own_beginning() -> None:
    wanted = WantedSteps([0], Pacing(1e6))
    wanted.take(0)
    wanted.over()
    wanted.new_phase(99)
    # It is made at one step and first used at the next: that is one beginning.
    wanted.new_phase(100)
    assert wanted.phase_first == 100
    assert [n for n in range(90, 117) if n in wanted] == [100, 101, 104, 116]


def test_all_are_recorded_from_a_step_on() -> None:
    wanted = WantedSteps([1])
    wanted.want_all(10)
    assert [n for n in range(12) if n in wanted] == [1, 10, 11]


def test_seldom_changing_values_are_read_at_the_beginning_of_every_phase() -> None:
    wanted = WantedSteps([])
    assert not wanted.is_sampled(1001)
    wanted.new_phase(999)
    assert wanted.is_sampled(1001) and not wanted.is_sampled(1000 + FIRST_STEPS + 1)
    assert wanted.is_late(1000) and not wanted.is_late(1)


def test_the_step_at_which_a_number_will_be_read_is_wanted_where_steps_are_paced() -> None:
    for pacing, is_wanted in ((Pacing(1000.0), True), (None, False)):
        wanted = WantedSteps([], pacing)
        for step in range(100):
            if step in wanted:
                wanted.take(step)
                wanted.over()
            if step in (59, 79):
                wanted.read("train.py:9", step)
        assert (wanted._taken == 99) is is_wanted
