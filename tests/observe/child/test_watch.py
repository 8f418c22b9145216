"""Starting and ending a watch inside a process."""

from __future__ import annotations

import pytest

from lossleuth.observe.child.watch import start_from_environment
from lossleuth.observe.request import VARIABLE


def test_a_request_that_cannot_be_read_is_said_and_harms_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "{not json")
    start_from_environment()
    assert "this process is not watched" in capsys.readouterr().err
