"""Phases of a run: a script may train several things one after another.

They are found when the run is over, from what each step trained. Things that are trained in turn,
or of which one joins the other, are one phase: a new one begins only where nothing of what was
trained before is trained any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# A phase that is shorter than this, and so many times shorter than the longest, is no training.
# Picked by hand: eight losses are the fewest from which most causes judge anything.
FEW_STEPS, TIMES_SHORTER = 8, 10

Trained = int | Sequence[int] | None
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


class Phase(NamedTuple):
    """One of several things that a script trains one after another."""

    number: int
    """Which one, from 1."""
    of: int
    """Phases of the observed run."""
    first: int
    """Its first step, counted from 0 as everywhere in a record."""
    last: int
    """Its last step that was seen."""

    @property
    def sentence(self) -> str:
        """Which one, for people, who count steps from 1.

        >>> Phase(2, 2, 400, 829).sentence
        'in the second of 2 phases, steps 401 to 830'
        """
        ordinal = ORDINALS[self.number - 1] if self.number <= len(ORDINALS) else f"{self.number}th"
        return f"in the {ordinal} of {self.of} phases, steps {self.first + 1} to {self.last + 1}"

    @property
    def steps(self) -> int:
        """How many steps of it were seen."""
        return self.last - self.first + 1


def segments(trained: Sequence[Trained]) -> list[tuple[int, int]]:
    """First and last position of each phase; together they are all positions.

    >>> segments([0, 0, 0, 1, 1]), segments([0, 1, 0, 1]), segments([0, None, [0, 1], 1])
    ([(0, 2), (3, 4)], [(0, 3)], [(0, 3)])
    """
    span: dict[int, tuple[int, int]] = {}
    for position, numbers in enumerate(trained):
        for number in _numbers(numbers):
            span[number] = (span.get(number, (position, 0))[0], position)
    # What is trained at a time when another still is belongs to the same phase.
    ends: list[int] = []
    for begin, end in sorted(span.values()):
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            ends.append(end)
    if not ends:
        return [(0, len(trained) - 1)] if trained else []
    # Steps without an update stand at the beginning of what follows, or at the very end.
    ends[-1] = len(trained) - 1
    begins = [0, *(end + 1 for end in ends[:-1])]
    return list(zip(begins, ends, strict=True))


def phases_of(steps: Sequence[int], trained: Sequence[Trained]) -> list[Phase]:
    """The phases of a run, from the numbers of its steps and what each trained."""
    found = segments(trained)
    return [
        Phase(number, len(found), steps[begin], steps[end])
        for number, (begin, end) in enumerate(found, 1)
    ]


def is_brief(phase: Phase, phases: Sequence[Phase]) -> bool:
    """Whether a phase is too short to be a training, beside the others."""
    longest = max(other.steps for other in phases)
    return phase.steps < FEW_STEPS and TIMES_SHORTER * phase.steps < longest


def numbers_in(trained: Sequence[Trained]) -> set[int]:
    """Everything that was trained in some steps."""
    return {number for numbers in trained for number in _numbers(numbers)}


def _numbers(trained: Trained) -> Sequence[int]:
    if trained is None:
        return ()
    return (trained,) if isinstance(trained, int) else trained
