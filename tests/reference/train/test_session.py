"""A whole run."""

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
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small import SETTINGS

from lossleuth.reference.train import session as sessions
from lossleuth.reference.train.checkpoint import load_checkpoint
from lossleuth.reference.train.data import Batch, make_batch
from lossleuth.reference.train.session import Session
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.settings import Resolved, resolve
from lossleuth.types.errors import BadInput

TEXT = "she sells sea shells by the sea shore. the shells she sells are sea shells. "


@pytest.fixture
def settings(tmp_path: Path) -> TrainSettings:
    (tmp_path / "text.txt").write_text(TEXT * 20)
    data = (str(tmp_path / "text.txt"),)
    return replace(SETTINGS, data=data, evaluate_every=5, checkpoint_every=3, dropout=0.1)


def session(settings: TrainSettings, folder: Path, **more: Any) -> tuple[Session, io.StringIO]:
    output = io.StringIO()
    sources = dict.fromkeys(settings.__dataclass_fields__, "test")
    console = Console(file=output, width=200)
    return Session(Resolved(settings, sources), folder, console, **more), output


def losses(folder: Path) -> list[float]:
    lines = map(json.loads, (folder / "record.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if line["kind"] == "step"]


def test_a_run_leaves_checkpoint_settings_record_and_tokens(
    settings: TrainSettings, tmp_path: Path
) -> None:
    run, output = session(settings, tmp_path / "run", record=True)
    result = run.run()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "checkpoint.safetensors",
        "record.jsonl",
        "settings.json",
        "tokens.bin",
    ]
    saved = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert saved["lr"] == {"value": settings.lr, "source": "test"}
    assert len(losses(tmp_path / "run")) == settings.steps
    assert load_checkpoint(tmp_path / "run").header.step == settings.steps
    assert 0 < result.loss < math.log(run.tokenizer.size) + 0.2
    for said in (
        "alignment: all 64 positions",
        "floors in nats",
        "clipped",
        "validation at step 5",
    ):
        assert said in output.getvalue()


class Crash(Exception):
    pass


def crashed(settings: TrainSettings, folder: Path) -> None:
    """A run that ends at its sixth batch, with a checkpoint after the third."""
    run, _ = session(settings, folder, record=True)
    at = run.order.at

    def crash(k: int) -> Any:
        if k == 5:
            raise Crash
        return at(k)

    object.__setattr__(run.order, "at", crash)
    with pytest.raises(Crash):
        run.run()
    assert len(losses(folder)) == 5


def assert_same_run(one: Path, other: Path) -> None:
    assert losses(one) == losses(other)
    first, second = load_checkpoint(one).tensors, load_checkpoint(other).tensors
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("kernel", ["auto", "torch"])
def test_a_resumed_run_is_the_same_run_bit_for_bit(
    settings: TrainSettings, tmp_path: Path, kernel: str
) -> None:
    settings = replace(settings, loss_kernel=kernel)
    session(settings, tmp_path / "a", record=True)[0].run()
    crashed(settings, tmp_path / "b")
    saved = load_checkpoint(tmp_path / "b")
    resumed, _ = session(settings, tmp_path / "b", record=True, resumed=saved)
    assert resumed.first_step == 3
    resumed.run()
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_a_run_from_before_the_loss_kernels_goes_on_bit_for_bit(
    settings: TrainSettings, tmp_path: Path
) -> None:
    by_torch = replace(settings, loss_kernel="torch")
    session(by_torch, tmp_path / "a", record=True)[0].run()
    crashed(by_torch, tmp_path / "b")
    path = tmp_path / "b" / "checkpoint.safetensors"
    with safe_open(path, framework="pt") as stream:
        header = json.loads(stream.metadata()["lossleuth"])
    del header["settings"]["loss_kernel"]
    save_file(load_file(path), path, {"lossleuth": json.dumps(header)})
    saved = load_checkpoint(path)
    kept = resolve(TrainSettings, options={}, saved=saved.header.settings)
    assert kept.sources["loss_kernel"] == "checkpoint"
    resumed, output = session(kept.values, tmp_path / "b", record=True, resumed=saved)
    resumed.run()
    assert "loss: computed by torch's cross_entropy" in output.getvalue()
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_the_loss_kernel_is_said_and_changes_only_the_last_digits(
    settings: TrainSettings, tmp_path: Path
) -> None:
    found = {}
    for kernel in ("auto", "torch"):
        run, output = session(replace(settings, loss_kernel=kernel), tmp_path / kernel, record=True)
        run.run()
        assert ("by lossleuth.kernels" in output.getvalue()) == (kernel == "auto")
        found[kernel] = losses(tmp_path / kernel)
    first, other = found["auto"], found["torch"]
    # Of the first step, before any rounding has grown: a few last digits of a float32.
    assert abs(first[0] - other[0]) <= 8 * 2**-24 * first[0]


def test_observing_by_record_does_not_change_the_run(
    settings: TrainSettings, tmp_path: Path
) -> None:
    session(settings, tmp_path / "a", record=True)[0].run()
    session(settings, tmp_path / "b")[0].run()
    one, other = load_checkpoint(tmp_path / "a"), load_checkpoint(tmp_path / "b")
    assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"width": 32}, "the checkpoint's width = 16, found 32"),
        ({"seed": 5}, "the checkpoint's seed = 0, found 5"),
        ({"data": (), "steps": 9}, "the data that the run was made with"),
    ],
)
def test_a_refused_resume_leaves_every_file_as_it_was(
    settings: TrainSettings, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    session(settings, tmp_path / "a", record=True)[0].run()
    before = contents(tmp_path / "a")
    checkpoint = load_checkpoint(tmp_path / "a")
    with pytest.raises(BadInput, match=reason):
        session(replace(settings, **change), tmp_path / "a", resumed=checkpoint, record=True)
    assert contents(tmp_path / "a") == before


def test_a_foreign_record_is_refused_before_anything_is_written(
    settings: TrainSettings, tmp_path: Path
) -> None:
    session(settings, tmp_path / "a")[0].run()
    (tmp_path / "a" / "record.jsonl").write_text("epoch,loss\n1,2\n")
    before = contents(tmp_path / "a")
    checkpoint = load_checkpoint(tmp_path / "a")
    with pytest.raises(BadInput, match="line 1 of"):
        more = replace(settings, steps=9)
        session(more, tmp_path / "a", resumed=checkpoint, record=True)
    assert contents(tmp_path / "a") == before


def test_text_that_is_too_short_leaves_no_directory_behind(
    settings: TrainSettings, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text("short")
    with pytest.raises(BadInput, match="one window, found the longest has"):
        session(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_record_counts_steps_as_the_screen_does(
    settings: TrainSettings, tmp_path: Path
) -> None:
    run, output = session(settings, tmp_path / "run", record=True)
    run.run()
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "record.jsonl").read_text().splitlines()
    ]
    steps = [line["step"] for line in lines if line["kind"] == "step"]
    evaluations = [line["step"] for line in lines if line["kind"] == "evaluation"]
    assert steps == list(range(1, settings.steps + 1))
    assert evaluations == [5, 8]
    assert "validation at step 5" in output.getvalue()


def test_a_file_name_is_not_read_as_markup(settings: TrainSettings, tmp_path: Path) -> None:
    name = str(tmp_path / "[red]a[.txt")
    Path(name).write_text(TEXT * 20)
    _, output = session(replace(settings, data=(name,)), tmp_path / "run")
    shown = "".join(output.getvalue().split())
    assert shown.count("[red]a[.txt") == 2


def test_a_warm_up_as_long_as_the_run_is_noted(settings: TrainSettings, tmp_path: Path) -> None:
    _, output = session(replace(settings, warmup=8), tmp_path / "a")
    assert "a warm-up of 8 steps in a run of 8: the rate only rises" in output.getvalue()
    _, output = session(replace(settings, warmup=7), tmp_path / "b")
    assert "the rate only rises" not in output.getvalue()


def spoil_from(run: Session, first: int) -> None:
    """Make every step from the `first` on non-finite."""
    made = iter(range(10**9))

    def spoil(module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output * math.nan if module.training and next(made) >= first else output

    run.model.embedding.register_forward_hook(spoil)


def test_a_state_after_a_bad_step_does_not_replace_a_good_checkpoint(
    settings: TrainSettings, tmp_path: Path
) -> None:
    run, output = session(settings, tmp_path / "run")
    spoil_from(run, first=4)
    with pytest.raises(BadInput, match="finite numbers at step 8 to save, found that the output"):
        run.run()
    assert "no checkpoint at step 6: expected finite numbers at step 6" in output.getvalue()
    assert load_checkpoint(tmp_path / "run").header.step == 3


def test_weights_that_are_not_finite_are_not_saved(settings: TrainSettings, tmp_path: Path) -> None:
    run, _ = session(replace(settings, steps=1, lr=1e300, warmup=0), tmp_path / "run")
    with pytest.raises(BadInput, match=r"the parameter .* is not finite: nothing is saved"):
        run.run()
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_bad_steps_are_counted_through_a_resume(settings: TrainSettings, tmp_path: Path) -> None:
    run, _ = session(settings, tmp_path / "run")
    real = run.model.embedding.register_forward_hook(lambda m, i, out: out * math.nan)
    run.model.register_forward_hook(lambda m, i, out: real.remove())
    run.run()
    checkpoint = load_checkpoint(tmp_path / "run")
    assert checkpoint.header.bad_steps == 1
    more = replace(settings, steps=12, bad_steps_allowed=1)
    again, _ = session(more, tmp_path / "run", resumed=checkpoint)
    spoil_from(again, first=0)
    with pytest.raises(BadInput, match="at most 1 non-finite steps, found 2, the last at step 9"):
        again.run()


def test_ctrl_c_while_the_last_checkpoint_is_written_does_not_lose_it(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = session(settings, tmp_path / "run")
    real = sessions.checkpoints.save_checkpoint

    def interrupted(path: Path, header: Any, *rest: Any) -> None:
        if header.step == settings.steps:
            signal.raise_signal(signal.SIGINT)
        real(path, header, *rest)

    monkeypatch.setattr(sessions.checkpoints, "save_checkpoint", interrupted)
    run.run()
    assert load_checkpoint(tmp_path / "run").header.step == settings.steps


def test_another_device_is_allowed_with_a_note(settings: TrainSettings, tmp_path: Path) -> None:
    session(settings, tmp_path / "run")[0].run()
    more = replace(settings, steps=9, device="cpu")
    _, output = session(more, tmp_path / "run", resumed=load_checkpoint(tmp_path / "run"))
    assert "note: device auto before, cpu now: not bit for bit" in output.getvalue()


def test_a_misaligned_batch_stops_the_run_before_it_starts(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(*args: Any) -> Batch:
        batch = make_batch(*args)
        return replace(batch, targets_BT=batch.targets_BT.roll(-1, dims=1))

    monkeypatch.setattr(sessions, "make_batch", shifted)
    with pytest.raises(RuntimeError, match="positions of the first batch have a wrong target"):
        session(settings, tmp_path / "run")


def test_the_run_stops_after_the_stated_number_of_bad_steps(
    settings: TrainSettings, tmp_path: Path
) -> None:
    run, output = session(replace(settings, bad_steps_allowed=2), tmp_path / "run", record=True)
    run.model.embedding.register_forward_hook(lambda m, i, out: out * math.nan)
    with pytest.raises(BadInput, match="at most 2 non-finite steps, found 3, the last at step 3"):
        run.run()
    assert "step 1 was not applied: output of embedding is not finite; windows [" in (
        output.getvalue()
    )
    lines = (tmp_path / "run" / "record.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == ["NaN"] * 3


def test_a_checkpoint_that_cannot_be_written_in_mid_run_does_not_stop_it(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, output = session(settings, tmp_path / "run")
    real = sessions.checkpoints.save_checkpoint

    def full(path: Path, header: Any, *rest: Any) -> None:
        if header.step == 3:
            raise OSError(28, "No space left on device")
        real(path, header, *rest)

    monkeypatch.setattr(sessions.checkpoints, "save_checkpoint", full)
    run.run()
    assert "no checkpoint at step 3" in output.getvalue()
    assert "No space left on device" in output.getvalue()
    assert load_checkpoint(tmp_path / "run").header.step == settings.steps
