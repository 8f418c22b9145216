"""Each story names a program, true causes, and lines that exist."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from lossleuth.labs.cases.stories import STORIES, Fault, Story, story

NAMES = ("rising_loss", "always_clipped", "kahan", "constant_loss", "run_three")


def test_all_five_are_told() -> None:
    assert tuple(found.name for found in STORIES) == NAMES
    assert story("run_three").blamed == ("temperature_too_high",)


@pytest.mark.parametrize("told", STORIES, ids=lambda s: s.name)
def test_every_fault_is_in_exactly_one_line(told: Story) -> None:
    for fault in told.faults:
        assert fault.snippet in fault.path.read_text("utf-8").splitlines()[fault.line() - 1]


@pytest.mark.parametrize("told", STORIES, ids=lambda s: s.name)
def test_a_story_has_ten_lines_and_blames_the_innocent(told: Story) -> None:
    assert len(told.text.splitlines()) == 10
    assert told.believed and told.blamed
    assert not set(told.blamed) & set(told.causes)


@pytest.mark.parametrize("told", STORIES, ids=lambda s: s.name)
def test_the_repairs_are_those_of_the_program(told: Story) -> None:
    program = importlib.import_module(f"lossleuth.labs.cases.{told.name}")
    assert told.repairs == program.REPAIRS
    assert program.__file__ == str(told.script)


def test_a_program_runs_by_itself(tmp_path: Path) -> None:
    command = [sys.executable, str(story("constant_loss").script), "--steps", "16"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout == "epoch   1  loss 9.2103  lr 1.0e-03\n"


def test_a_wrong_backward_begins_within_two_lines_of_its_fault() -> None:
    for told in STORIES:
        for fault in told.faults:
            if fault.cause == "wrong_backward":
                lines = fault.path.read_text("utf-8").splitlines()
                assert "@staticmethod" in lines[fault.line() - 3]


def test_a_snippet_that_is_missing_or_ambiguous_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="stands in 0 lines"):
        Fault("never_steps", "run_three.py", "no such" + " words").line()
    with pytest.raises(LookupError, match="stands in"):
        Fault("never_steps", "run_three.py", "should_step").line()


def test_stories_load_nothing_heavy() -> None:
    program = "import sys, lossleuth.labs.cases.stories; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.strip() == "False"
