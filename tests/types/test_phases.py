"""Phases, from what each step trained."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossleuth.types.phases import (
    FEW_STEPS,
    TIMES_SHORTER,
    Phase,
    Trained,
    is_brief,
    numbers_in,
    phases_of,
    segments,
)


@pytest.mark.parametrize(
    ("trained", "found"),
    [
        ([], []),
        # Nothing is known, as in a record of an earlier release or a loop by hand.
        ([None, None, None], [(0, 2)]),
        ([0] * 5, [(0, 4)]),
        # Teacher then student; three seeds.
        ([0, 0, 1, 1], [(0, 1), (2, 3)]),
        ([0, 0, 1, 2, 2], [(0, 1), (2, 2), (3, 4)]),
        # In turn, together, and in turns of many steps.
        ([0, 1, 0, 1], [(0, 3)]),
        ([[0, 1], [0, 1]], [(0, 1)]),
        ([0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1], [(0, 11)]),
        # A critic that begins alone, and one that leaves first.
        ([0, 0, 1, 0, 1], [(0, 4)]),
        ([0, 1, 0, 1, 1, 1], [(0, 5)]),
        # Skipped updates begin what follows.
        ([0, 0, None, 1, None], [(0, 1), (2, 4)]),
        ([None, 0, 1], [(0, 1), (2, 2)]),
        # Two in turn, then a third thing.
        ([0, 1, 0, 1, 2, 2], [(0, 3), (4, 5)]),
    ],
)
def test_a_phase_begins_where_nothing_from_before_is_trained_any_more(
    trained: list[Trained], found: list[tuple[int, int]]
) -> None:
    assert segments(trained) == found


steps = st.lists(
    st.one_of(st.none(), st.integers(0, 4), st.lists(st.integers(0, 4), min_size=1, max_size=3))
)


@given(steps)
def test_phases_are_all_steps_in_order_and_share_nothing(trained: list[Trained]) -> None:
    found = segments(trained)
    covered = [position for begin, end in found for position in range(begin, end + 1)]
    assert covered == list(range(len(trained)))
    parts = [numbers_in(trained[begin : end + 1]) for begin, end in found]
    assert all(not one & other for one, other in itertools.combinations(parts, 2))


@given(steps)
def test_there_is_no_finer_way_to_part_what_is_trained(trained: list[Trained]) -> None:
    for begin, end in segments(trained):
        for cut in range(begin + 1, end + 1):
            before, after = numbers_in(trained[begin:cut]), numbers_in(trained[cut : end + 1])
            # Only steps that trained nothing could go either way.
            assert before & after or not before or not after


def test_steps_are_named_by_their_own_numbers() -> None:
    # Of a long run, only the beginning and the end are held.
    first, second = phases_of([0, 1, 98, 99], [0, 0, 1, 1])
    assert (first, second) == (Phase(1, 2, 0, 1), Phase(2, 2, 98, 99))
    assert second.sentence == "in the second of 2 phases, steps 99 to 100"
    assert Phase(12, 12, 4, 9).sentence == "in the 12th of 12 phases, steps 5 to 10"


def test_a_phase_is_brief_beside_a_long_one_alone() -> None:
    few, long = FEW_STEPS - 1, TIMES_SHORTER * FEW_STEPS
    brief, other = Phase(1, 2, 0, few - 1), Phase(2, 2, few, few + long)
    assert is_brief(brief, [brief, other])
    assert not is_brief(other, [brief, other])
    alike = Phase(2, 2, few, 3 * few)
    assert not is_brief(brief, [brief, alike])
