"""Orders, and what a process makes of them."""

from __future__ import annotations

import json
import os

import pytest

from lossleuth.observe.child.watch import STARTUP_FOLDER, VARIABLE, Order, start_from_environment


def test_an_order_travels_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    order = Order("runs/x", {"script": "train.py"}, process=1)
    environment = order.environment()
    assert Order(**json.loads(environment[VARIABLE])) == order
    assert environment["PYTHONPATH"] == os.pathsep.join([STARTUP_FOLDER, "/elsewhere"])


def test_an_order_that_cannot_be_read_is_said_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "{not json")
    start_from_environment()
    assert "this process is not watched" in capsys.readouterr().err


def test_who_only_wants_losses_is_not_told_where_things_came_from() -> None:
    assert Order("runs/x", {}, process=1, loss_steps=(0, 9)).is_trial
    assert not Order("runs/x", {}, process=1, loss_steps=(0, 9), tape=(1,)).is_trial
    assert not Order("runs/x", {}, process=1).is_trial
