"""Recording chosen steps of a running program."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from loops import read, train

from lossleuth.observe.failures import Failures
from lossleuth.observe.hooks import Hooks
from lossleuth.observe.observer import Observer
from lossleuth.record.write import RecordWriter
from lossleuth.tape.recorder import Recorder


def taped(folder: Path, steps: tuple[int, ...], count: int = 5) -> tuple[list[float], Observer]:
    failures = Failures()
    observer = Observer(lambda: RecordWriter.create(folder, {}, print), failures, steps)
    hooks = Hooks(observer, failures)
    hooks.install()
    try:
        losses = train(count)
    finally:
        hooks.remove()
        observer.finish({"how": "test"})
    return losses, observer


def test_chosen_steps_are_looked_at_and_no_loss_changes(tmp_path: Path) -> None:
    bare = train(5)
    losses, observer = taped(tmp_path / "run", (1, 3))
    assert losses == bare
    assert observer.failures.count == 0
    found = [event.data for event in read(tmp_path / "run").events("tape")]
    assert [data["step"] for data in found] == [1, 3]
    (truth,) = found[0]["gradient_truth"]
    names = {row["name"] for row in truth["parameters"]}
    assert names == {"0.weight", "1.weight", "1.bias"}
    assert truth["error"] < 10 * truth["floor"]


def test_our_own_derivatives_and_updates_are_not_taken_for_the_programs(tmp_path: Path) -> None:
    taped(tmp_path / "run", (1, 2, 3))
    record = read(tmp_path / "run")
    assert record.steps.tolist() == [0, 1, 2, 3, 4]
    assert set(record.series("backwards")) == {1}
    assert set(record.series("updates")) == {1}
    assert record.events("settings")[-1].data["idle_optimizers"] == []


def test_the_mode_is_gone_afterwards(tmp_path: Path) -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    taped(tmp_path / "run", (1, 4))
    assert _get_current_dispatch_mode_stack() == []


@pytest.mark.parametrize("broken", ["begin_backward", "end_backward", "before_update"])
def test_a_failure_of_ours_ends_the_recording_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    bare = train(5)

    def fail(*_args: object, **_more: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(Recorder, broken, fail)
    losses, observer = taped(tmp_path / "run", (1,))
    assert losses == bare
    assert observer.failures.count == 1
    assert read(tmp_path / "run").events("tape") == []


def test_no_window_opens_inside_inference_mode(tmp_path: Path) -> None:
    failures = Failures()
    observer = Observer(lambda: RecordWriter.create(tmp_path / "run", {}, print), failures, (0, 1))
    with torch.inference_mode():
        observer.taping.begin(1)
    assert observer.capturing is None
