"""A whole distillation."""

from __future__ import annotations

import io
import json
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from lossleuth.reference.distil import session as sessions
from lossleuth.reference.distil.loop import DistilStep
from lossleuth.reference.distil.session import Session, words
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.state import FILE_NAME, load_state
from lossleuth.reference.train.checkpoint import load_checkpoint
from lossleuth.reference.train.data import IGNORED, Batch
from lossleuth.reference.train.evaluate import Evaluation
from lossleuth.reference.train.loop import Step
from lossleuth.settings import Resolved
from lossleuth.types.errors import BadInput

EVERYTHING = {
    "hidden_weight": 0.1,
    "attention_weight": 0.1,
    "contrastive_weight": 0.1,
    "average": 0.3,
    "dropout": 0.1,
    "accumulation": 2,
    "temperature_end": 1.5,
}


def session(settings: DistilSettings, folder: Path, **more: Any) -> tuple[Session, io.StringIO]:
    output = io.StringIO()
    sources = dict.fromkeys(settings.__dataclass_fields__, "test")
    console = Console(file=output, width=200)
    return Session(Resolved(settings, sources), folder, console, **more), output


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    read = map(json.loads, (folder / "record.jsonl").read_text().splitlines())
    return [line for line in read if line["kind"] == kind]


def test_a_run_leaves_student_state_settings_record_and_tokens(
    settings: DistilSettings, tmp_path: Path
) -> None:
    run, output = session(settings, tmp_path / "run", record=True)
    result = run.run()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.safetensors",
        "distil.safetensors",
        "record.jsonl",
        "settings.json",
        "tokens.bin",
    ]
    saved = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert saved["temperature"] == {"value": 2.0, "source": "test"}
    steps = lines(tmp_path / "run", "step")
    assert [line["step"] for line in steps] == list(range(1, 9))
    assert steps[0]["parts"].keys() == steps[0]["weights"].keys() == {"distil", "data"}
    evaluations = lines(tmp_path / "run", "evaluation")
    assert [line["step"] for line in evaluations] == [4, 8]
    assert evaluations[-1]["loss"] == result.loss == run.progress.best_loss
    assert evaluations[0]["nearness"]["kl"] > 0
    assert {part["name"] for part in evaluations[0]["parts"]} == {"distil", "data"}
    for said in ("curriculum", "share of gradient", "untrained", "KL from the teacher", "T 2.00"):
        assert said in output.getvalue()


@pytest.mark.parametrize("changes", [{}, EVERYTHING])
def test_a_resumed_run_is_the_same_run_bit_for_bit(
    settings: DistilSettings, tmp_path: Path, changes: dict[str, Any]
) -> None:
    settings = replace(settings, **changes)
    session(settings, tmp_path / "a", record=True)[0].run()

    class Crash(Exception):
        pass

    crashing, _ = session(settings, tmp_path / "b", record=True)
    real = crashing.load

    def crash(k: int) -> Batch:
        if k == 5 * settings.accumulation:
            raise Crash
        return real(k)

    crashing.load = crash  # type: ignore[method-assign]  # the crash
    with pytest.raises(Crash):
        crashing.run()
    resumed, _ = session(settings, tmp_path / "b", record=True, resumed=load_state(tmp_path / "b"))
    assert resumed.first_step == 3
    resumed.run()
    for name in (FILE_NAME, "checkpoint.safetensors"):
        one, other = (load_file(tmp_path / run / name) for run in "ab")
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    for kind in ("step", "evaluation"):
        a, b = (lines(tmp_path / run, kind) for run in "ab")
        assert [x | {"seconds": 0} for x in a] == [x | {"seconds": 0} for x in b]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"temperature": 3.0}, "the checkpoint's temperature = 2.0, found 3.0"),
        ({"divergence": "reverse_kl"}, "the checkpoint's divergence = forward_kl"),
        ({"data": ("other",), "steps": 9}, "the data that the run was made with"),
        ({}, "more than the 8 steps already made"),
    ],
)
def test_a_refused_resume_leaves_every_file_as_it_was(
    settings: DistilSettings, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    folder = tmp_path / "run"
    session(settings, folder)[0].run()
    before = contents(folder)
    if "data" in change:
        (tmp_path / "other.txt").write_text("other text, " * 99)
        change = change | {"data": (str(tmp_path / "other.txt"),)}
    with pytest.raises(BadInput, match=reason):
        session(replace(settings, **change), folder, resumed=load_state(folder))
    assert contents(folder) == before


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations whose true loss falls twice and rises from then on."""
    losses = iter([2.0, 1.5, 1.6, 1.7, 1.8, 1.9])

    def evaluated(*_arguments: Any) -> Evaluation:
        return Evaluation(next(losses), 0.1, 10, 20)

    monkeypatch.setattr(sessions, "true_loss", evaluated)


@pytest.mark.usefixtures("planned")
def test_the_best_student_is_the_one_of_the_lowest_true_loss(
    settings: DistilSettings, tmp_path: Path
) -> None:
    run, output = session(replace(settings, steps=6, evaluate_every=1), tmp_path / "run")
    assert run.run().loss == 1.5
    # What was minimised went on falling.
    assert run.progress.step == 6 and run.progress.best_step == 2
    assert load_checkpoint(tmp_path / "run").header.step == 2
    assert "best true loss 1.5000 at step 2" in output.getvalue()


@pytest.mark.usefixtures("planned")
def test_a_run_without_progress_stops_early(settings: DistilSettings, tmp_path: Path) -> None:
    settings = replace(settings, steps=40, evaluate_every=1, patience=3)
    run, output = session(settings, tmp_path / "run")
    run.run()
    assert run.progress.step == 5
    assert "stopped: 3 evaluations without a better true loss" in output.getvalue()
    assert load_state(tmp_path / "run").progress == run.progress


def test_averaged_weights_are_what_is_measured_and_kept(
    settings: DistilSettings, tmp_path: Path
) -> None:
    run, _ = session(replace(settings, average=0.5), tmp_path / "run")
    run.run()
    kept = load_checkpoint(tmp_path / "run").model()
    state = load_file(tmp_path / "run" / FILE_NAME)
    for name, parameter in kept.named_parameters():
        assert torch.equal(parameter, state[f"average.{name}"])
        assert not torch.equal(parameter, state[f"weights.student.{name}"])


def test_batches_without_a_supervised_token_are_counted_and_said(
    settings: DistilSettings, tmp_path: Path
) -> None:
    run, output = session(settings, tmp_path / "run", record=True)
    real = run.load

    def load(k: int) -> Batch:
        given = real(k)
        masked = torch.full_like(given.targets_BT, IGNORED)
        return replace(given, targets_BT=masked) if k == 2 else given

    run.load = load  # type: ignore[method-assign]  # a batch of padding
    run.run()
    assert run.progress.empty_batches == 1 and run.progress.bad_steps == 0
    assert "step 3 was left out: no supervised token" in output.getvalue()
    assert [line["step"] for line in lines(tmp_path / "run", "empty")] == [3]
    assert all(math.isfinite(line["loss"]) for line in lines(tmp_path / "run", "step"))


def test_a_teacher_that_changed_is_no_teacher(settings: DistilSettings, tmp_path: Path) -> None:
    run, _ = session(settings, tmp_path / "run")
    with torch.no_grad():
        next(run.assembly.teacher.module.parameters()).add_(1e-3)
    with pytest.raises(RuntimeError, match="the teacher's weights changed during the run"):
        run.run()


def test_the_run_stops_after_the_stated_number_of_bad_steps(
    settings: DistilSettings, tmp_path: Path
) -> None:
    run, output = session(replace(settings, bad_steps_allowed=1), tmp_path / "run")
    run.assembly.student.embedding.register_forward_hook(lambda m, i, out: out * math.nan)
    with pytest.raises(BadInput, match="at most 1 non-finite steps, found 2, the last at step 2"):
        run.run()
    assert "step 1 was not applied: output of model.embedding is not finite" in output.getvalue()


def test_ctrl_c_saves_the_step_and_says_how_to_go_on(
    settings: DistilSettings, tmp_path: Path
) -> None:
    run, _ = session(settings, tmp_path / "run")
    real = run.load

    def load(k: int) -> Batch:
        if k == 4:
            signal.raise_signal(signal.SIGINT)
        return real(k)

    run.load = load  # type: ignore[method-assign]  # the interruption
    with pytest.raises(
        BadInput, match="Ctrl-C after step 5, which is saved: go on with: lossleuth d"
    ):
        run.run()
    assert load_state(tmp_path / "run").progress.step == 5


def test_a_state_that_cannot_be_written_in_mid_run_does_not_stop_it(
    settings: DistilSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, output = session(settings, tmp_path / "run")
    real = sessions.save_state

    def full(path: Path, progress: Any, *rest: Any) -> None:
        if progress.step == 3:
            raise OSError(28, "No space left on device")
        real(path, progress, *rest)

    monkeypatch.setattr(sessions, "save_state", full)
    run.run()
    assert "no state at step 3" in output.getvalue()
    assert load_state(tmp_path / "run").progress.step == 8


def test_text_that_is_too_short_leaves_no_directory_behind(
    settings: DistilSettings, tmp_path: Path
) -> None:
    (tmp_path / "short.txt").write_text("short")
    with pytest.raises(BadInput, match="one window, found the longest has"):
        session(replace(settings, data=(str(tmp_path / "short.txt"),)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_is_minimised_is_shown_part_by_part() -> None:
    common = (0, 1.5, 1e-3, 1.0, 1.0, True, 10, 0.1, [])
    step = DistilStep(*common, parts={"distil": 2.0}, weights={"distil": 0.75}, temperature=2.0)
    assert words(step) == "minimised 1.5000 = 0.75 distil 2.000  T 2.00"
    assert words(Step(*common)) == "minimised 1.5000"
