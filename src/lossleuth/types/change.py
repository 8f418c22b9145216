"""What was changed in a trial, and what it did to the true loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

Option = float | int | str | bool
# How strict JSON spells the numbers that it does not have; `float` reads them.
NON_FINITE = ("NaN", "Infinity", "-Infinity")


class Change(NamedTuple):
    """One thing that is different in a run: an intervention by name, with its options."""

    name: str
    """The intervention."""
    options: tuple[tuple[str, Option], ...] = ()
    """Its options by name."""

    @classmethod
    def of(cls, name: str, **options: Option) -> Change:
        """A change with its options by name.

        >>> Change.of("scale_lr", factor=0.1).sentence
        'scale_lr(factor=0.1)'
        """
        return cls(name, tuple(sorted(options.items())))

    def as_json(self) -> dict[str, Any]:
        """The form in which it is stored.

        >>> Change.of("scale_lr", factor=0.1).as_json()
        {'name': 'scale_lr', 'options': {'factor': 0.1}}
        """
        for option in self.options:
            if option[1] in NON_FINITE:
                raise ValueError(f"{option} would be read back as a number")
        return {"name": self.name, "options": dict(self.options)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Change:
        """The change that `as_json` stored."""
        return cls.of(stored["name"], **_restored(stored["options"]))

    @property
    def sentence(self) -> str:
        """For people: `scale_lr(factor=0.1)`."""
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.options)})"


def _restored(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the names of non-finite numbers turned into these numbers."""
    return {k: float(v) if v in NON_FINITE else v for k, v in stored.items()}


# Pairs of runs below which nothing is proven.
MIN_PROVING_SEEDS = 3
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
    """What a trial found: paired runs of the same program without and with one change."""

    change: Change
    """The one thing that was different."""
    nats: float
    """Loss without the change minus loss with it: positive is better with the change."""
    error: float
    """Standard error of that."""
    seeds: int
    """Pairs of runs; fewer than 3 prove nothing."""
    steps: int
    """Steps of each run."""
    without: float
    """Mean loss at the end, as the program is."""
    with_change: float
    """Mean loss at the end with the change."""
    start: float
    """Mean loss at the beginning."""
    measure: str = "true loss"
    """Which loss was measured: the true one, or the differentiated one where that is all."""

    def as_json(self) -> dict[str, Any]:
        """The form in which it is stored, with the change also as a sentence."""
        change = {"change": self.change.sentence, "intervention": self.change.as_json()}
        return self._asdict() | change

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Effect:
        """The effect that `as_json` stored."""
        numbers = {k: v for k, v in stored.items() if k not in ("change", "intervention")}
        return cls(change=Change.from_json(stored["intervention"]), **_restored(numbers))

    @property
    def is_better(self) -> bool:
        """Whether the change helped beyond doubt: by more than 3 standard errors, over 3 seeds."""
        return self.seeds >= MIN_PROVING_SEEDS and self.nats > 3 * self.error and self.nats > 0

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
