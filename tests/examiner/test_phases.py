"""Scripts that train several things, examined as users do: phases are found, judged and tried."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "lossleuth", *map(str, arguments)]


def examined(out: Path, script: str, *arguments: str, options: tuple[str, ...] = ()) -> Any:
    """The verdict on a program of the tests, which `rejudge` gives again."""
    run = command("run", *options, "--out", out, PROGRAMS / f"{script}.py", *arguments)
    subprocess.run(run, check=False)
    verdict = json.loads((out / "verdict.json").read_text())
    judged = subprocess.run(command("rejudge", "--json", out), capture_output=True, check=False)
    assert json.loads(judged.stdout) | {"seconds": 0} == verdict | {"seconds": 0}
    assert verdict["errored"] == []
    return verdict


def spans(verdict: Any) -> list[tuple[int, int]]:
    return [(phase["first"], phase["last"]) for phase in verdict["phases"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("teacher_then_student", [(0, 89), (90, 179)]),
        ("pre_trained_then_tuned", [(0, 89), (90, 179)]),
        ("three_seeds", [(0, 59), (60, 119), (120, 179)]),
        ("warmed_up_by_another", [(0, 89), (90, 179)]),
        ("in_turn", []),
        ("made_anew_every_epoch", []),
        ("unfrozen", []),
    ],
)
def test_phases_are_found(tmp_path: Path, kind: str, found: list[tuple[int, int]]) -> None:
    verdict = examined(tmp_path / "out", "phases", kind, options=("--no-trials",))
    assert spans(verdict) == found
    assert not [cause for cause in verdict["causes"] if cause["status"] == "proven"]
    assert (verdict["steps"], verdict["seen_to_end"]) == (120 if "anew" in kind else 180, True)


@pytest.mark.slow
@pytest.mark.parametrize("script", ["lightning_distils", "hf_trainer_distils"])
def test_phases_of_trainers_are_found(tmp_path: Path, script: str) -> None:
    verdict = examined(tmp_path / "out", script, options=("--no-trials",))
    assert spans(verdict) == [(0, 59), (60, 119)]
    assert not [cause for cause in verdict["causes"] if cause["status"] == "proven"]


@pytest.mark.slow
@pytest.mark.parametrize("script", ["lightning_distils", "hf_trainer_distils"])
def test_a_fault_in_a_student_of_a_trainer_is_proven_in_its_phase(
    tmp_path: Path, script: str
) -> None:
    verdict = examined(tmp_path / "out", script, "ahead")
    found = [cause for cause in verdict["causes"] if cause["status"] == "proven"]
    assert [(cause["id"], cause["phase"]["number"]) for cause in found] == [("label_offset", 2)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["teacher_then_student", "warmed_up_by_another"])
@pytest.mark.parametrize("faulty", [1, 2])
def test_a_fault_in_one_phase_is_proven_and_the_phase_is_named(
    tmp_path: Path, kind: str, faulty: int
) -> None:
    verdict = examined(tmp_path / "out", "phases", kind, str(faulty))
    assert verdict["status"] == "proven"
    (found,) = [cause for cause in verdict["causes"] if cause["status"] == "proven"]
    assert (found["id"], found["phase"]["number"]) == ("label_offset", faulty)
    ordinal = "first" if faulty == 1 else "second"
    assert found["because"].startswith(f"In the {ordinal} of 2 phases, steps ")
    assert verdict["phases"][faulty - 1]["status"] == "proven"
    assert verdict["phases"][2 - faulty]["status"] != "proven"


@pytest.mark.slow
def test_trials_are_made_in_the_phase_that_is_at_fault(tmp_path: Path) -> None:
    verdict = examined(tmp_path / "out", "phases", "teacher_then_student", "2", "rate")
    (found,) = [cause for cause in verdict["causes"] if cause["status"] == "proven"]
    assert (found["id"], found["phase"]["number"]) == ("lr_too_high", 2)
    # The teacher is as good with the change as without: it acts in its own phase alone.
    assert (found["harm"]["seeds"], found["harm"]["nats"] > 1) == (3, True)
    assert verdict["phases"][0]["status"] == "healthy"
