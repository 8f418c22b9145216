"""Healthy programs of every make: true gradients, no leak, targets one ahead, nothing found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from healthy_tapes import COMMANDS, Seen, seen


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_wrong_with_a_healthy_program(name: str, tmp_path: Path) -> None:
    assert seen(name, tmp_path).faults == []


def test_there_are_enough_of_them() -> None:
    assert len(COMMANDS) >= 25


SOUND = Seen("plain", 1e-7, 1e-7, 1.0, (), ((0.0, 0.0),), (1,), (), is_same=True)


@pytest.mark.parametrize(
    "changed",
    [
        {"error": 1e-4},
        {"error": float("nan")},
        {"over_floor": 20.0},
        {"untested": ("opaque",)},
        {"leaks": ((0.0, 1e-9),)},
        {"leaks": ((None, None),)},
        {"offsets": (2,)},
        {"offsets": (None,)},
        {"findings": ("wrong_backward suspected",)},
        {"is_same": False},
    ],
)
def test_whatever_is_wrong_is_told(changed: dict[str, object]) -> None:
    assert SOUND.faults == []
    assert len(replace(SOUND, **changed).faults) == 1  # type: ignore[arg-type]  # several types
