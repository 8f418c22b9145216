"""What a judge says of one cause."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from lossleuth.types.change import Change, Effect


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
    """The user's source where the fault is in it, else the asset at fault (then without line)."""

    file: str | None
    line: int | None = None
    module: str | None = None


class Wrongness(NamedTuple):
    """An invariant, what it should be, what it is, and what rounding alone could make of it."""

    what: str
    value: float
    expected: float
    floor: float


@dataclass(frozen=True)
class Judgement:
    """What a judge says of one cause, and what it would like to have tried."""

    status: Status
    because: str
    where: Where | None = None
    wrongness: Wrongness | None = None
    harm: Effect | None = None
    remedy: str = ""
    # Trials that would decide; the first that helps is the cure.
    wants: tuple[Change, ...] = ()
    # The change with which the rest is judged once this is proven.
    cure: Change | None = None


def refuted(because: str) -> Judgement:
    """Tested, and not so."""
    return Judgement(Status.REFUTED, because)


def untested(because: str) -> Judgement:
    """Could not be tested, with the reason."""
    return Judgement(Status.UNTESTED, because)
