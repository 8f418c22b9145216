"""What a run shows."""

from __future__ import annotations

import io

from rich.console import Console

from lossleuth.reference.train.floors import Floors
from lossleuth.reference.train.loop import Step
from lossleuth.reference.train.progress import PLAIN_LINES, beside_floors, display

FLOORS = Floors(uniform=4.0, unigram=3.0, bigram=2.0)


def shown(*, terminal: bool, steps: int) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100)
    with display(console, beside_floors(FLOORS), first=0, steps=steps) as screen:
        for number in range(steps):
            screen.step(Step(number, 2.5, 1e-3, 1.0, 1.0, True, 100, 0.5, []))
        screen.say("[not markup] done")
    return stream.getvalue()


def test_elsewhere_than_on_a_terminal_there_are_a_few_plain_lines() -> None:
    output = shown(terminal=False, steps=200)
    lines = output.splitlines()
    assert PLAIN_LINES <= len(lines) <= PLAIN_LINES + 2
    assert "\x1b" not in output
    assert "loss 2.5000  (unigram -0.50, bigram +0.50)" in lines[0]
    assert "200 tokens/s" in lines[0]
    assert lines[-1] == "[not markup] done"


def test_a_short_run_shows_every_step() -> None:
    assert len(shown(terminal=False, steps=3).splitlines()) == 4


def test_a_terminal_gets_a_bar_with_the_distance_to_the_floors() -> None:
    output = shown(terminal=True, steps=5)
    assert "loss 2.5000  (unigram -0.50, bigram +0.50) 200 tok/s" in output
    assert "\x1b" in output
