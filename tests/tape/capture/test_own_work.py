"""Whose work it is."""

from __future__ import annotations

import pytest

from lossleuth.tape.capture.own_work import OwnWork


def test_work_within_work_is_ours_until_the_outermost_ends() -> None:
    own = OwnWork()
    with own.work():
        with own.work():
            pass
        assert own.depth == 1
    assert own.depth == 0


def test_an_error_ends_it_too() -> None:
    own = OwnWork()
    with pytest.raises(ValueError), own.work():
        raise ValueError
    assert own.depth == 0
