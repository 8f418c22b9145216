"""What was changed in a trial, and what it did to the true loss."""

from __future__ import annotations

import ast
import math
from typing import NamedTuple


class Change(NamedTuple):
    """One thing that is different in a run: an intervention by name, with its options."""

    name: str
    options: tuple[tuple[str, float | int | str | bool], ...] = ()

    @classmethod
    def of(cls, name: str, **options: float | int | str | bool) -> Change:
        """A change with its options by name.

        >>> Change.of("scale_lr", factor=0.1).sentence
        'scale_lr(factor=0.1)'
        """
        return cls(name, tuple(sorted(options.items())))

    @classmethod
    def told(cls, sentence: str) -> Change:
        """The change that a sentence tells of.

        >>> Change.told("use_rule(rule=AdamW)") == Change.of("use_rule", rule="AdamW")
        True
        """
        name, _, inside = sentence.rstrip(")").partition("(")
        options: dict[str, float | int | str | bool] = {}
        for part in filter(None, inside.split(", ")):
            key, _, value = part.partition("=")
            try:
                options[key] = ast.literal_eval(value)
            except (ValueError, SyntaxError):
                options[key] = value
        return cls.of(name, **options)

    @property
    def sentence(self) -> str:
        """As it is told: `scale_lr(factor=0.1)`."""
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.options)})"


# A loss of so many times its start is lost: how far it went says nothing, and would only drown the
# difference to a run that learns in the differences among those that do not.
LOST = 10.0


def counted(end: float, start: float) -> float:
    """A loss as it counts in a comparison.

    >>> counted(2.5, 4.0), counted(31000.0, 4.0), counted(math.inf, 4.0)
    (2.5, 40.0, 40.0)
    """
    return min(end, LOST * start) if start > 0 else end


class Effect(NamedTuple):
    """What a change did to the true loss over paired runs; positive is better with the change."""

    change: Change
    # Loss without the change minus loss with it, in nats, and the standard error of that; of
    # losses as they are counted.
    nats: float
    error: float
    seeds: int
    steps: int
    # Mean true loss at the end without and with the change, and at the beginning.
    without: float
    with_change: float
    start: float
    # What was measured: the true loss, or the differentiated one where that is all there is.
    measure: str = "true loss"

    @property
    def is_better(self) -> bool:
        """Whether the change helped beyond doubt: by more than 3 standard errors, over 3 seeds."""
        return self.seeds >= 3 and self.nats > 3 * self.error and self.nats > 0

    @property
    def possible(self) -> float:
        """The progress that is made with the change, from the start on."""
        return self.start - self.with_change

    def makes_without(self, share: float) -> bool:
        """Whether more than this share of that progress is made without it."""
        gained = self.start - self.without
        return math.isfinite(gained) and gained > share * self.possible

    @property
    def sentence(self) -> str:
        """The effect in words."""
        lost = max(self.without, self.with_change) > LOST * self.start > 0
        cut = ""
        if lost and math.isfinite(self.nats):
            cut = f"; above {LOST * self.start:.3f} counts as that"
        return (
            f"{self.measure} {self.without:.3f} without, {self.with_change:.3f} with "
            f"{self.change.sentence} ({self.nats:+.3f} ± {self.error:.3f} nats over "
            f"{self.seeds} paired runs of {self.steps} steps{cut})"
        )
