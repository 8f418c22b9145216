"""What the parent asks of a watched process."""

from __future__ import annotations

import json
import os

import pytest

from lossleuth.observe.request import STARTUP_FOLDER, VARIABLE, WatchRequest


def test_a_request_travels_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    request = WatchRequest("runs/x", {"script": "train.py"}, process=1)
    environment = request.environment()
    assert WatchRequest(**json.loads(environment[VARIABLE])) == request
    assert environment["PYTHONPATH"] == os.pathsep.join([STARTUP_FOLDER, "/elsewhere"])


def test_a_run_that_only_wants_losses_is_a_trial() -> None:
    assert WatchRequest("runs/x", {}, process=1, loss_steps=(0, 9)).is_trial
    assert not WatchRequest("runs/x", {}, process=1, loss_steps=(0, 9), tape=(1,)).is_trial
    assert not WatchRequest("runs/x", {}, process=1).is_trial
