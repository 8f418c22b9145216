"""Our own failures stay ours."""

from __future__ import annotations

import pytest

from lossleuth.observe.guard import guarded
from lossleuth.observe.session import Session


class Example:
    def __init__(self) -> None:
        self.session = Session()
        self.was_ours = False

    @guarded
    def hook(self, error: BaseException | None) -> None:
        self.was_ours = self.session.is_ours
        if error is not None:
            raise error


def test_a_failure_is_counted_named_once_and_does_not_spread() -> None:
    example = Example()
    for error in (None, ValueError("one"), KeyError("two")):
        example.hook(error)
    assert example.session.failures.count == 2
    sentence = example.session.failures.sentence()
    assert sentence is not None
    assert sentence.startswith("2 internal errors while watching")
    assert "ValueError in hook: one" in sentence
    assert example.session.own_seconds > 0


def test_ctrl_c_in_a_hook_is_the_users() -> None:
    with pytest.raises(KeyboardInterrupt):
        Example().hook(KeyboardInterrupt())


def test_what_a_hook_does_is_ours_and_what_comes_after_is_not() -> None:
    example = Example()
    example.hook(ValueError("also where it fails"))
    assert example.was_ours
    assert not example.session.is_ours
