"""One verdict on a script that trains several things."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_examinations import cause, says

from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.judge.judge import challenged_phases, judge
from lossleuth.judge.verdict import Verdict
from lossleuth.types.cause import Cause
from lossleuth.types.challenge import Challenge
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status
from lossleuth.types.observed import Ending, Step, Trainee

FALLING, FLAT = [3.0 - 0.1 * i for i in range(20)], [3.0] * 20


def run(*parts: list[float], recorded: tuple[int, ...] = (0, 20)) -> list[Evidence]:
    """The phases of a run that trains one thing after another, with these losses."""
    pairs = [(loss, number) for number, part in enumerate(parts) for loss in part]
    whole = Evidence(
        steps=[Step(i, loss=loss, trained=number) for i, (loss, number) in enumerate(pairs)],
        recorded=[RecordedStep(step) for step in recorded],
        trainees=[Trainee(number, 0) for number in range(len(parts))],
        ending=Ending(how="stopped"),
    )
    return [whole.of_phase(phase) for phase in whole.phases]


def by_first_loss(found: dict[float, Judgement]) -> list[Cause]:
    """A cause that is judged by the first loss of what it sees."""
    return [cause("a", lambda e: found[e.losses[0]]), cause("b", lambda e: says(Status.REFUTED))]


HIGH = [9.0 - 0.1 * i for i in range(20)]


@pytest.mark.parametrize(
    ("first", "second", "status", "number"),
    [
        (Status.REFUTED, Status.PROVEN, "proven", 2),
        (Status.PROVEN, Status.REFUTED, "proven", 1),
        (Status.PROVEN, Status.PROVEN, "proven", 1),
        (Status.SUSPECTED, Status.PROVEN, "proven", 2),
        (Status.REFUTED, Status.SUSPECTED, "suspected", 2),
        (Status.BENIGN, Status.REFUTED, "healthy", 1),
        (Status.REFUTED, Status.UNTESTED, "healthy", 2),
        (Status.REFUTED, Status.REFUTED, "healthy", 1),
    ],
)
def test_the_answer_is_that_of_the_worst_phase(
    first: Status, second: Status, status: str, number: int
) -> None:
    causes = by_first_loss({3.0: says(first, wrongness=None), 9.0: says(second)})
    found = judge(causes, run(FALLING, HIGH))
    assert found.status == status
    judgement = found.judgements["a"]
    assert judgement.phase is not None and judgement.phase.number == number
    ordinal, steps = ("first", "1 to 20") if number == 1 else ("second", "21 to 40")
    assert judgement.because == f"In the {ordinal} of 2 phases, steps {steps}: 1 is not 2"
    assert [part.phase.number for part in found.phases] == [1, 2]


def test_one_phase_that_does_not_learn_keeps_a_script_from_being_healthy() -> None:
    causes = by_first_loss({3.0: says(Status.REFUTED)})
    found = judge(causes, run(FALLING, FLAT))
    assert found.status == "cannot_tell"
    assert [part.status for part in found.phases] == ["healthy", "cannot_tell"]
    assert found.notes[0] == (
        "in the second of 2 phases, steps 21 to 40: nothing shows that the run is learning "
        "(loss 3.000 → 3.000)"
    )
    assert found.notes[-1] == "judged: steps 1 to 40; the run went on"
    assert found.steps == 40


def test_a_phase_of_which_nothing_was_recorded_is_not_called_healthy() -> None:
    causes = by_first_loss({3.0: says(Status.REFUTED), 9.0: says(Status.REFUTED)})
    first, second = run(FALLING, HIGH, recorded=(0,))
    other = replace(second, trainees=[Trainee(1, 7)])
    found = judge(causes, [first, other])
    assert [part.status for part in found.phases] == ["healthy", "cannot_tell"]
    assert found.status == "cannot_tell"
    assert any(note.endswith(": no step of it was recorded") for note in found.notes)


def test_a_few_steps_of_something_else_are_told_and_not_judged() -> None:
    causes = by_first_loss({9.0: says(Status.PROVEN), 3.0: says(Status.REFUTED)})
    found = judge(causes, run([9.0], FALLING))
    assert found.status == "healthy"
    assert any("1 steps are too few to be judged" in note for note in found.notes)


def test_a_repetition_that_was_not_recorded_is_told_and_not_judged() -> None:
    causes = by_first_loss({3.0: says(Status.REFUTED), 9.0: says(Status.PROVEN)})
    looks = run(FALLING, [9.0, *FALLING[1:]], recorded=(0, 1))
    assert judge(causes, looks).status == "healthy"
    assert "phase 1 trains by the same lines" in judge(causes, looks).notes[1]
    # Another kind of training is judged by what is known of it.
    other = replace(looks[1], trainees=[Trainee(1, 7)])
    assert judge(causes, [looks[0], other]).status == "proven"


@pytest.mark.parametrize("ends", [HIGH[1:], [9.0] * 18 + [math.nan]], ids=["high", "not finite"])
def test_a_repetition_that_ends_worse_is_judged_though_nothing_was_recorded(
    ends: list[float],
) -> None:
    """The last rate of a sweep may be the one that is too high."""
    causes = by_first_loss({3.0: says(Status.REFUTED), 9.0: says(Status.PROVEN)})
    assert judge(causes, run(FALLING, [9.0, *ends], recorded=(0, 1))).status == "proven"


def test_what_is_said_of_phases_is_written_and_read_back(tmp_path: Path) -> None:
    causes = by_first_loss({3.0: says(Status.REFUTED), 9.0: says(Status.PROVEN)})
    found = judge(causes, run(FALLING, HIGH))
    found.write(tmp_path)
    stored = json.loads((tmp_path / "verdict.json").read_text())
    assert stored["causes"][0]["phase"] == {"number": 2, "of": 2, "first": 20, "last": 39}
    assert [(p["number"], p["status"], len(p["causes"])) for p in stored["phases"]] == [
        *((1, "healthy", 0), (2, "proven", 1)),
    ]
    again = Verdict.read(tmp_path)
    assert again.as_json() == found.as_json()


def test_a_run_of_one_phase_says_nothing_of_phases() -> None:
    causes = by_first_loss({3.0: says(Status.PROVEN)})
    found = judge(causes, [Evidence(steps=[Step(i, loss=x) for i, x in enumerate(FALLING)])])
    assert (found.phases, found.judgements["a"].phase) == ((), None)
    assert found.judgements["a"].because == "1 is not 2"
    assert found.as_json()["causes"][0]["phase"] is None


BATTERY = [Challenge(Change.of("scale_lr", factor=0.1), "at a tenth of the learning rate")]
LOWER = [3.1 - 0.1 * i for i in range(20)]


def challenged(looks: list[Evidence]) -> list[Evidence]:
    """The same, where the first phase has stood the battery."""
    nothing = Effect(BATTERY[0].change, 0.0, 0.01, 3, 20, 1.0, 1.0, 3.0)
    return [replace(looks[0], effects={BATTERY[0].change: nothing}), *looks[1:]]


def test_a_phase_that_does_again_what_another_did_needs_no_challenges_of_its_own() -> None:
    causes = [cause("b", lambda e: says(Status.REFUTED))]
    looks = challenged(run(FALLING, LOWER))
    assert challenged_phases(looks) == [0]
    found = judge(causes, looks, battery=BATTERY)
    assert found.status == "healthy"
    assert any("it does what phase 1 did" in note for note in found.notes)


@pytest.mark.parametrize(
    "other",
    [
        {"trainees": [Trainee(1, 7)]},
        {"sizes": [8, 8]},
        {"steps": [Step(i, loss=3.0) for i in range(20)]},
        {"steps": [Step(i, loss=9.0 - 0.5 * i) for i in range(20)]},
        {"steps": [Step(i, loss=x, lr=0.1) for i, x in enumerate(FALLING)]},
    ],
    ids=["other lines", "another size", "it comes less far", "it starts elsewhere", "another rate"],
)
def test_a_phase_that_differs_has_to_stand_them_too(other: dict[str, Any]) -> None:
    causes = [cause("b", lambda e: says(Status.REFUTED))]
    first, second = challenged(run(FALLING, LOWER))
    looks = [first, replace(second, **other)]
    assert challenged_phases(looks) == [0, 1]
    found = judge(causes, looks, battery=BATTERY)
    assert found.status == "cannot_tell"
    assert any("it was not tried at a tenth" in note for note in found.notes)
