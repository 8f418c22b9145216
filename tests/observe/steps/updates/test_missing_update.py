"""Where an update would have been made."""

from __future__ import annotations

from pathlib import Path

import pytest

from lossleuth.observe.steps.updates.missing_update import step_call_after

SCRIPT = """\
scheduler.step()
for x in data:
    loss = model(x)
    loss.backward()
    if False:
        optimizer.step()
    steps(optimizer)
"""


@pytest.mark.parametrize(("line", "found"), [(1, 1), (2, 6), (4, 6), (7, 1)])
def test_the_next_call_of_step_is_found_or_the_first(tmp_path: Path, line: int, found: int) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    assert step_call_after(f"{path}:{line}") == f"{path}:{found}"


@pytest.mark.parametrize("text", ["loss.backward()\n", "def f(:\n", None])
def test_where_there_is_none_nothing_is_said(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "train.py"
    if text is not None:
        path.write_text(text)
    assert step_call_after(f"{path}:1") is None
    assert step_call_after("") is None
