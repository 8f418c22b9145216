"""The line at which a backward pass by hand goes wrong."""

from __future__ import annotations

import inspect

import hand_programs
from hand_programs import Program, recorded, wrong_of_tanh

from lossleuth.probes.no_autograd.hand_step import hand_step


def line_of(text: str) -> int:
    lines = inspect.getsource(hand_programs).splitlines()
    (line,) = [number for number, line in enumerate(lines, 1) if text in line]
    return line


def place(program: Program) -> tuple[str, int]:
    step = hand_step(*recorded(program))
    assert step is not None
    assert step.place is not None
    file, _, line = step.place.rpartition(":")
    return file, int(line)


def test_a_wrong_derivative_is_where_it_is_taken() -> None:
    assert place(Program(through=wrong_of_tanh)) == (
        hand_programs.__file__,
        line_of("return given * (act - act**2)"),
    )


def test_a_wrong_factor_is_where_it_is_multiplied() -> None:
    file, line = place(Program(reduced=lambda d: d.mean(0)))
    assert file == __file__
    assert "d.mean(0)" in inspect.getsource(inspect.getmodule(place)).splitlines()[line - 1]  # type: ignore[arg-type]  # this module


def test_a_fault_at_the_top_is_not_placed_behind_it() -> None:
    file, line = place(Program(top=lambda d: d.abs()))
    assert file == hand_programs.__file__ or file == __file__
    assert file == __file__ or line <= line_of("d = self.top")
