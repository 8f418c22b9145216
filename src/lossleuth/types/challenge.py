"""A standing change: every run that seems healthy is tried with it, and should gain nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence


class Bias(Enum):
    """What a gain of a challenge may mean beside a fault."""

    NONE = "nothing"
    """A run that does better with it is held back by what it undoes."""
    EARLY = "it often wins at first and loses in the long run"
    """It counts only over the script's whole run."""
    TUNING = "a factor of three is a matter of tuning"
    """It is told, and never counts."""
    FITS = "it fits the batches that are seen better, at the price of others"
    """It is told, and never counts."""


def always(_: Evidence) -> bool:
    """For challenges that any run can take."""
    return True


@dataclass(frozen=True)
class Challenge:
    """A change, in words too, and what its gain may mean."""

    change: Change
    # Completes "does better ...": "at a tenth of the learning rate".
    words: str
    bias: Bias = Bias.NONE
    # Whether it shows only over the whole run, as a schedule does.
    over_whole_run: bool = False
    # Whether it makes sense for a run: no decay, where nothing decays, is no change.
    applies: Callable[[Evidence], bool] = always
