"""Starting and ending a watch inside a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from lossleuth.observe.child.watch import Watch, start_from_environment
from lossleuth.observe.patches.hooks import Hooks
from lossleuth.observe.request import VARIABLE, WatchRequest
from lossleuth.observe.steps.observer import Observer
from lossleuth.record.read import Record
from lossleuth.torch_internals import dispatch_modes


def test_a_request_that_cannot_be_read_is_said_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "{not json")
    start_from_environment()
    assert "this process is not watched" in capsys.readouterr().err


def fail(*_args: Any, **_options: Any) -> None:
    raise AttributeError("no such function in this torch")


def watched_step(folder: Path) -> Record:
    watch = Watch(WatchRequest(str(folder), {}, process=0), main=True)
    watch.start(until_exit=False)
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    watch.finish({"how": "test"})
    return Record.open(folder)


def test_a_patch_that_could_not_be_applied_is_named_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Hooks, "_patch_clipping", fail)
    with watched_step(tmp_path / "run") as record:
        reason = "AttributeError: no such function in this torch"
        assert record.header["missing_patches"] == {"clipping": reason}
        assert len(record.steps) == 1
    assert "no such function in this torch" in capsys.readouterr().err


def test_where_nothing_could_be_watched_the_record_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Observer, "__init__", fail)
    with watched_step(tmp_path / "run") as record:
        assert list(record.header["missing_patches"]) == ["everything"]
        assert record.ended is not None
        assert "no such function" in record.ended["failures"]


def test_a_recording_of_a_step_that_never_comes_is_ended_with_the_watch(tmp_path: Path) -> None:
    modes = dispatch_modes()
    request = WatchRequest(str(tmp_path / "run"), {}, process=0, tape=(0, 1))
    watch = Watch(request, main=True)
    watch.start(until_exit=False)
    # Without an optimizer, the next step may begin after any backward pass.
    torch.ones(2, requires_grad=True).sum().backward()
    assert len(dispatch_modes()) > len(modes)
    watch.finish({"how": "test"})
    assert dispatch_modes() == modes


def test_a_watch_that_sees_everything_misses_nothing(tmp_path: Path) -> None:
    with watched_step(tmp_path / "run") as record:
        assert "missing_patches" not in record.header
