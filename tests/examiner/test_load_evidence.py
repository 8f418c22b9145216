"""A record as evidence."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from made_runs import found_on, true_loss

from lossleuth.examiner import load_evidence as evidence
from lossleuth.examiner.load_evidence import evidence_of
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.no_autograd import HandLoss
from lossleuth.record.write import RecordWriter
from lossleuth.types.change import Change, Effect
from lossleuth.types.errors import BadInput
from lossleuth.types.observed import (
    Ending,
    Made,
    ParameterGroup,
    Readings,
    RunSettings,
    Unfinished,
)


def settings(place: str, **group: object) -> dict[str, object]:
    return {"optimizers": [{"class": "Own", "place": place, "groups": [group]}], "schedulers": []}


def write(folder: Path) -> None:
    writer = RecordWriter.create(folder, {"script": "train.py"}, print)
    writer.event("settings", settings("sgd.py:1"))
    writer.parameters(["wte", "head"], [64, 8], ["grad_rms", "of_no_interest"])
    writer.step({"step": 0, "loss": 2.5}, np.array([[1.0, 2.0], [3.0, 4.0]]))
    writer.event(*found_on(0, true_loss(2.5)))
    writer.step({"step": 1, "loss": math.nan}, np.array([[5.0, 6.0], [7.0, 8.0]]))
    writer.event("settings", settings("adam.py:2", betas=[0.9, None]))
    writer.event("origins", {"tokens": None})
    writer.event("provenance", {"files_read": []})
    writer.event("unfinished", {"backwards": 3})
    writer.end({"how": "stopped"})


def test_everything_a_judge_may_ask_for_is_there(tmp_path: Path) -> None:
    write(tmp_path / "run")
    found = evidence_of(tmp_path / "run")
    assert [step.step for step in found.steps] == [0, 1]
    assert found.losses[0] == 2.5
    assert (found.parameters, found.sizes) == (["wte", "head"], [64, 8])
    assert found.readings == Readings(grad_rms=[[1.0, 3.0], [5.0, 7.0]])
    assert found.all(TrueLoss) == [true_loss(2.5)]
    # A setting of another type than it should be is one that is not known.
    assert found.settings == RunSettings((Made("adam.py:2", (ParameterGroup(betas=None),)),))
    assert found.script == "train.py"
    assert found.ending == Ending(how="stopped", unfinished=Unfinished(backwards=3))
    assert (found.effects, found.failed) == ({}, {})


def test_patches_that_could_not_be_applied_reach_the_judge(tmp_path: Path) -> None:
    header = {"script": "train.py", "missing_patches": {"clipping": "gone"}}
    RecordWriter.create(tmp_path / "run", header, print).end({"how": "stopped"})
    assert evidence_of(tmp_path / "run").missing_patches == {"clipping": "gone"}
    write(tmp_path / "whole")
    assert evidence_of(tmp_path / "whole").missing_patches == {}


def test_trials_are_added(tmp_path: Path) -> None:
    write(tmp_path / "run")
    change, other = Change.of("hold_lr"), Change.of("scale_lr", factor=2)
    effect = Effect(change, 1.0, 0.1, 3, 20, 3.0, 2.0, 4.0)
    found = evidence_of(tmp_path / "run", {change: effect}, {other: "it hung"})
    assert found.answers([other, change]) == [effect]
    assert found.failed == {other: "it hung"}


def test_a_record_without_steps_is_little_evidence_and_no_error(tmp_path: Path) -> None:
    RecordWriter.create(tmp_path / "run", {}, print).end({"how": "exit"})
    found = evidence_of(tmp_path / "run")
    assert (found.steps, found.readings, found.settings) == ([], Readings(), RunSettings())


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        evidence_of(tmp_path)


def test_of_a_run_too_long_to_be_held_its_beginning_and_end_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MAX_READINGS", 8)
    monkeypatch.setattr(evidence, "MIN_STEPS", 4)
    writer = RecordWriter.create(tmp_path / "run", {}, print)
    writer.parameters(["w", "b"], [4, 4], ["grad_rms"])
    for step in range(100):
        writer.step({"step": step}, np.full((2, 1), float(step)))
    writer.end({})
    found = evidence_of(tmp_path / "run")
    assert [step.step for step in found.steps] == [0, 1, 98, 99]
    assert [row[0] for row in found.readings.grad_rms] == [0.0, 1.0, 98.0, 99.0]


def test_without_a_backward_pass_the_loss_is_what_is_read_where_it_was_found(
    tmp_path: Path,
) -> None:
    writer = RecordWriter.create(tmp_path / "run", {"script": "train.py"}, print)
    norm, loss, again = [7.0, "train.py:9"], [2.5, "train.py:9"], [9.0, "eval.py:3"]
    writer.step({"step": 0, "backwards": 0, "updates": 1, "reads": [norm, loss, again]}, None)
    writer.event(*found_on(0, HandLoss(2.5, "train.py:9", which=1)))
    # This one reads the norm alone, and the last one has a loss of its own.
    writer.step({"step": 1, "backwards": 0, "updates": 1, "reads": [norm, again]}, None)
    writer.step({"step": 2, "backwards": 0, "updates": 1, "reads": [norm, loss]}, None)
    writer.step({"step": 3, "backwards": 1, "updates": 1, "loss": 1.0, "reads": [norm, loss]}, None)
    writer.end({"how": "stopped"})
    found = evidence_of(tmp_path / "run")
    assert [step.loss for step in found.steps] == [2.5, None, 2.5, 1.0]
