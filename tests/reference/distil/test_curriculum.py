"""Temperature and weights over a run."""

from __future__ import annotations

import pytest

from lossleuth.reference.distil.curriculum import CURVES, Curriculum, Ramp
from lossleuth.types.errors import BadInput


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("steps", [2, 7, 1000])
def test_a_ramp_starts_and_ends_where_it_says_and_never_turns_back(curve: str, steps: int) -> None:
    values = [Ramp(2.0, 1.5, curve).at(step, steps) for step in range(steps)]
    assert values[0] == 2.0 and values[-1] == 1.5
    assert values == sorted(values, reverse=True)


def test_curves_differ_in_between() -> None:
    linear, cosine = (Ramp(2.0, 1.0, curve).at(1, 5) for curve in CURVES)
    assert linear == 1.75 and 1.85 < cosine < 1.86


def test_a_run_of_one_step_is_at_the_start() -> None:
    assert Ramp(2.0, 1.0).at(0, 1) == 2.0


def test_the_table_shows_first_and_last_step() -> None:
    curriculum = Curriculum(Ramp(2.0, 1.5), {"distil": Ramp(0.9, 0.5), "data": Ramp(0.1, 0.5)}, 200)
    lines = curriculum.table()
    assert lines[0].split() == ["curriculum", "step", "temperature", "distil", "data"]
    assert lines[1].split() == ["1", "2.000", "0.900", "0.100"]
    assert lines[-1].split() == ["200", "1.500", "0.500", "0.500"]


@pytest.mark.parametrize(
    ("ramp", "parts", "reason"),
    [
        (Ramp(2.0, 0.0), {"distil": Ramp(1, 1)}, "temperatures above 0, found 2 to 0"),
        (Ramp(1, 1), {"distil": Ramp(0, 1)}, "found a sum of 0 at step 1 of 9"),
        (Ramp(1, 1), {"distil": Ramp(1, 0)}, "found a sum of 0 at step 9 of 9"),
        (Ramp(1, 1), {"distil": Ramp(1, 1), "data": Ramp(-1, 0)}, "weights of at least 0 for data"),
    ],
)
def test_what_would_teach_nothing_is_refused(
    ramp: Ramp, parts: dict[str, Ramp], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        Curriculum(ramp, parts, steps=9)
