"""When the program's lines read numbers: many print their loss every so many steps.

What is read in a recorded step can be compared with what is differentiated there. So the step at
which a line is expected to read again is worth a recording.
"""

from __future__ import annotations

# Recorded steps with a reading by the same line that are enough, and lines that are followed.
ENOUGH, MAX_LINES = 3, 16


class ReadingRhythm:
    """Foresees from two readings by a line when the next one will be.

    >>> rhythm = ReadingRhythm()
    >>> rhythm.read("train.py:9", 59)
    >>> rhythm.read("train.py:9", 119)
    >>> rhythm.is_due(178), rhythm.is_due(179)
    (False, True)
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._recorded: dict[str, int] = {}

    def read(self, line: str, step: int, *, recorded: bool = False) -> None:
        """A line has read a number in a step, of which there is a recording or not."""
        before = self._last.get(line, step)
        if before == step and line in self._last:
            return
        if line not in self._last and len(self._last) >= MAX_LINES:
            return
        self._last[line] = step
        self._next.pop(line, None)
        self._recorded[line] = self._recorded.get(line, 0) + recorded
        # What is read at every step is read in any that is recorded.
        if step - before > 1 and self._recorded[line] < ENOUGH:
            self._next[line] = 2 * step - before

    def is_due(self, step: int) -> bool:
        """Whether a line of which too little is known will read a number in this step."""
        return step in self._next.values()
