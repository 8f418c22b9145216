"""Our own failures stay ours."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lossleuth.observe.failures import Failures
from lossleuth.observe.guard import guarded


class Example:
    recording = SimpleNamespace(capture=None)

    def __init__(self) -> None:
        self.failures = Failures()
        self.own_seconds = 0.0

    @guarded
    def hook(self, error: BaseException | None) -> None:
        if error is not None:
            raise error


def test_a_failure_is_counted_named_once_and_does_not_spread() -> None:
    example = Example()
    for error in (None, ValueError("one"), KeyError("two")):
        example.hook(error)
    assert example.failures.count == 2
    sentence = example.failures.sentence()
    assert sentence is not None
    assert "failed 2 times" in sentence
    assert "ValueError in hook: one" in sentence
    assert example.own_seconds > 0


def test_ctrl_c_in_a_hook_is_the_users() -> None:
    with pytest.raises(KeyboardInterrupt):
        Example().hook(KeyboardInterrupt())
