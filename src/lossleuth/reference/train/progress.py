"""How a run is shown: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lossleuth.reference.train.floors import Floors
from lossleuth.reference.train.loop import Step

PLAIN_LINES = 20

Words = Callable[[Step], str]
"""What to say of a step's loss."""


class Display(Protocol):
    """What the trainer tells a display."""

    def step(self, step: Step) -> None:
        """A step was made."""

    def say(self, line: str) -> None:
        """Something worth a line of its own."""


class Speed:
    """Tokens per second over the run so far, evaluations left out."""

    def __init__(self) -> None:
        self.tokens = 0
        self.seconds = 0.0

    def add(self, step: Step) -> float:
        """Count a step and return tokens per second."""
        self.tokens += step.tokens
        self.seconds += step.seconds
        return self.tokens / self.seconds


def beside_floors(floors: Floors) -> Words:
    """The loss, and how far it is from what simple knowledge of the data would reach."""
    return lambda step: f"loss {step.loss:.4f}  ({against_floors(step.loss, floors)})"


def against_floors(loss: float, floors: Floors) -> str:
    """How far a loss is from what simple knowledge of the data would reach.

    >>> against_floors(2.0, Floors(uniform=4.6, unigram=3.2, bigram=2.4))
    'unigram -1.20, bigram -0.40'
    """
    return f"unigram {loss - floors.unigram:+.2f}, bigram {loss - floors.bigram:+.2f}"


class PlainDisplay:
    """One line every so many steps."""

    def __init__(self, console: Console, words: Words, first: int, steps: int) -> None:
        self._console = console
        self._words = words
        self._first = first
        self._steps = steps
        self._every = max(1, (steps - first) // PLAIN_LINES)
        self._speed = Speed()
        self._began = time.perf_counter()

    def step(self, step: Step) -> None:
        """Print the step if its turn has come."""
        speed = self._speed.add(step)
        done = step.step + 1
        if done % self._every and done != self._steps and step.step != self._first:
            return
        elapsed = time.perf_counter() - self._began
        left = elapsed / (done - self._first) * (self._steps - done)
        self.say(
            f"step {done:>6}/{self._steps}  {self._words(step)}  lr {step.lr:.2e}  "
            f"norm {step.norm_before_clip:.2f}  {speed:,.0f} tokens/s  {left:.0f} s left"
        )

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class BarDisplay:
    """A progress bar that the other lines scroll above."""

    def __init__(self, progress: Progress, words: Words, first: int, steps: int) -> None:
        self._progress = progress
        self._words = words
        self._speed = Speed()
        self._task = progress.add_task("", total=steps, completed=first, loss="")

    def step(self, step: Step) -> None:
        """Advance the bar."""
        speed = self._speed.add(step)
        text = f"{self._words(step)} {speed:,.0f} tok/s"
        self._progress.update(self._task, completed=step.step + 1, loss=text)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def display(console: Console, words: Words, first: int, steps: int) -> Iterator[Display]:
    """The display that fits where the output goes."""
    if not console.is_terminal:
        yield PlainDisplay(console, words, first, steps)
        return
    columns = (
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[loss]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield BarDisplay(progress, words, first, steps)
