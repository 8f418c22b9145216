"""How much of a run was seen."""

from __future__ import annotations

import pytest

from lossleuth.judge.reach import Reach, reach, steps_made
from lossleuth.types.evidence import Evidence
from lossleuth.types.observed import Ending, Step

STEPS = [Step(n) for n in range(830)]


@pytest.mark.parametrize(
    ("ending", "sentence"),
    [
        (Ending(how="end of script"), "judged: steps 1 to 830, to the script's own end"),
        (Ending(how="stopped"), "judged: steps 1 to 830; the run went on"),
        (
            Ending(how="stopped", planned=[(830, 2000)]),
            "judged: steps 1 to 830 of the 2 000 of its schedule; the run went on",
        ),
        # A schedule that is not stepped at every update counts something else.
        (Ending(how="stopped", planned=[(8, 20)]), "judged: steps 1 to 830; the run went on"),
        # One that is over says nothing.
        (Ending(how="stopped", planned=[(830, 500)]), "judged: steps 1 to 830; the run went on"),
        (Ending(), "judged: steps 1 to 830"),
        (Ending(how="exception", error="ValueError: 7"), "judged: steps 1 to 830"),
    ],
)
def test_what_was_reached_is_said(ending: Ending, sentence: str) -> None:
    evidence = Evidence(steps=STEPS, ending=ending)
    assert reach(evidence).sentence(steps_made(evidence)) == sentence


def test_at_its_own_end_no_plan_is_of_interest() -> None:
    ended = Ending(how="sys.exit", planned=[(830, 2000)])
    assert reach(Evidence(steps=STEPS, ending=ended)) == Reach(to_end=True)


def test_steps_that_are_not_held_are_counted() -> None:
    assert steps_made(Evidence(steps=[Step(0), Step(9999)])) == 10_000
    assert steps_made(Evidence()) == 0


def test_where_nothing_was_updated_no_steps_are_counted() -> None:
    assert Reach(to_end=False).sentence(0) == "no update was seen; the run went on"
    assert Reach(to_end=True).sentence(0) == "no update was seen, to the script's own end"
