"""What a judge says of one cause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from lossleuth.types.change import Change, Effect
from lossleuth.types.phases import Phase


class Status(Enum):
    """What is known of a cause. Unknown is never green."""

    PROVEN = "proven"
    SUSPECTED = "suspected"
    BENIGN = "benign"
    REFUTED = "refuted"
    UNTESTED = "untested"
    ERRORED = "errored"


class Stage(Enum):
    """Where a fault sits; earlier stages outrank later ones."""

    DATA = "data"
    LOSS = "loss"
    MODEL = "model"
    INITIALISATION = "initialisation"
    GRADIENT = "gradient"
    OPTIMIZER = "optimizer"
    PRECISION = "precision"
    DISTILLATION = "distillation"
    EVALUATION = "evaluation"


class Where(NamedTuple):
    """Where a fault is: in the user's source, else in the asset at fault."""

    file: str | None
    """The user's source, or the asset at fault (then without a line)."""
    line: int | None = None
    """Line in it, from 1."""
    module: str | None = None
    """Module, parameter or function there, where one is known."""


class Wrongness(NamedTuple):
    """An invariant that is broken."""

    what: str
    """The quantity."""
    value: float
    """What it is in this program."""
    expected: float
    """What it is in a correct one."""
    floor: float
    """What rounding or noise alone could make of it."""


@dataclass(frozen=True)
class Judgement:
    """What a judge says of one cause, and what it would like to have tried."""

    status: Status
    """Benign: it is there and does no harm. Untested: see `because`. Errored: our own failure."""
    because: str
    """The deciding number, in a sentence."""
    where: Where | None = None
    """Where it is, if that is known."""
    wrongness: Wrongness | None = None
    """The broken invariant."""
    harm: Effect | None = None
    """The trial, if there was one."""
    remedy: str = ""
    """What to do; may be empty."""
    trials_wanted: tuple[Change, ...] = ()
    """Trials that would decide; the first that helps is the cure."""
    cure: Change | None = None
    """The change with which the rest is judged once this is proven."""
    phase: Phase | None = None
    """The phase of the run that it speaks of; null where the script trains one thing."""


def refuted(because: str) -> Judgement:
    """Tested, and not so."""
    return Judgement(Status.REFUTED, because)


def untested(because: str) -> Judgement:
    """Could not be tested, with the reason."""
    return Judgement(Status.UNTESTED, because)
