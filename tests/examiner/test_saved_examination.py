"""What is written of an examination."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from made_runs import found_on

from lossleuth.examiner.saved_examination import SavedExamination, SavedLook
from lossleuth.judge.judge import Circumstances
from lossleuth.record.write import RecordWriter
from lossleuth.run_directory import RunDirectory
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.yardstick import Yardstick

ONE, TWO = Change.of("scale_lr", factor=math.inf), Change.of("use_rule", rule="a, b)")
EFFECT = Effect(ONE, math.inf, 0.1, 3, 40, math.inf, 2.0, 4.0)
LOOK = SavedLook(
    folders=["observed", "observed-bad"],
    cures=(TWO,),
    effects={ONE: EFFECT},
    longer={TWO: EFFECT._replace(change=TWO, nats=0.1)},
    failed={TWO: "it hung"},
    yardstick=Yardstick(steps=(0, 1), losses=(3.0, 2.0), parameters=9, trained=10),
)


@pytest.mark.parametrize("circumstances", [Circumstances(True, False), Circumstances(False, True)])
def test_what_was_written_can_be_read_back(tmp_path: Path, circumstances: Circumstances) -> None:
    saved = SavedExamination([LOOK, SavedLook(["cured1"])], ["lr_zero"], circumstances)
    run = RunDirectory(tmp_path)
    saved.write(run)
    assert SavedExamination.read(run) == saved
    assert [path.name for path in tmp_path.iterdir()] == ["examination.json"]


def test_a_run_that_was_only_watched_has_none(tmp_path: Path) -> None:
    assert SavedExamination.read(RunDirectory(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', '{"schema": 99}', "\xff"])
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    run = RunDirectory(tmp_path)
    run.examination.write_text(text, encoding="latin-1")
    with pytest.raises(BadInput, match="remove it to have the records judged alone"):
        SavedExamination.read(run)


def test_a_look_is_loaded_with_its_trials_and_further_steps(tmp_path: Path) -> None:
    for folder, step in zip(LOOK.folders, (0, 7), strict=True):
        writer = RecordWriter.create(tmp_path / folder, {}, print)
        writer.step({"step": step, "loss": 3.0}, None)
        writer.event(*found_on(step))
        writer.end({"how": "stopped"})
    run = RunDirectory(tmp_path)
    evidence = LOOK.load(run)
    assert [step.step for step in evidence.recorded] == [0, 7]
    assert (len(evidence.steps), evidence.cures) == (1, (TWO,))
    assert evidence.yardstick == LOOK.yardstick
    assert (evidence.effects, evidence.failed) == (LOOK.effects, LOOK.failed)
    assert evidence.longer == LOOK.longer
    with pytest.raises(BadInput):
        SavedLook(["cured1"]).load(run)


def test_a_change_is_stored_by_name_and_options(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    SavedExamination([LOOK]).write(run)
    stored = json.loads(run.examination.read_text())
    assert stored["looks"][0]["cures"] == [{"name": "use_rule", "options": {"rule": "a, b)"}}]
    assert stored["looks"][0]["effects"][0]["intervention"]["options"] == {"factor": "Infinity"}
