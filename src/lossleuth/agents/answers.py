"""The shapes of what is answered; clients see them as JSON schemas, with these words.

Fields that a later version adds are passed on as they are.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

# Strict JSON has no NaN and no infinity: they are written as words.
Number = float | Literal["NaN", "Infinity", "-Infinity"]
CauseStatus = Literal["proven", "suspected", "benign", "refuted", "untested", "errored"]
Outcome = Literal["pass", "fail", "cannot tell"]


class Shape(BaseModel):
    """What all have in common: the words under a field are its description."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class Where(Shape):
    """Where a fault is."""

    file: str | None
    """The user's source, or the asset at fault (then without a line)."""
    line: int | None
    """Line in it, from 1."""
    module: str | None
    """Module, parameter or function there, where one is known."""


class Wrongness(Shape):
    """An invariant that is broken."""

    what: str
    """The quantity."""
    value: Number
    """What it is in this program."""
    expected: Number
    """What it is in a correct one."""
    floor: Number
    """What rounding or noise alone could make of it."""


class Harm(Shape):
    """What a trial found: paired runs of the same program with and without one change."""

    change: str
    """The one thing that was different, with its dose."""
    nats: Number
    """Loss without the change minus loss with it: positive is better with the change."""
    error: Number
    """Standard error of that."""
    seeds: int
    """Pairs of runs; fewer than 3 prove nothing."""
    steps: int
    """Steps of each run."""
    without: Number
    """Mean loss at the end, as the program is."""
    with_change: Number
    """Mean loss at the end with the change."""
    start: Number
    """Mean loss at the beginning."""
    measure: str
    """Which loss was measured."""


class FoundCause(Shape):
    """A cause that is there."""

    id: str
    """Its id; `explain` has its page."""
    status: Literal["proven", "suspected", "benign"]
    """Benign: it is there, and a trial shows that it does no harm."""
    because: str
    """The deciding number, in a sentence."""
    where: Where | None
    """Where it is, if that is known."""
    wrongness: Wrongness | dict[str, Any]
    """The broken invariant; an empty object where there is none."""
    harm: Harm | None
    """The trial, if there was one."""
    remedy: str
    """What to do; may be empty."""


class Detail(Shape):
    """The judgement of one cause, whatever its status; fields that do not apply are left out."""

    status: CauseStatus
    """Untested: the reason is in `because`. Errored: our own failure."""
    because: str
    """The deciding number, in a sentence."""
    where: Where | None = None
    """Where it is, if that is known."""
    wrongness: Wrongness | None = None
    """The invariant."""
    harm: Harm | None = None
    """The trial."""
    remedy: str | None = None
    """What to do."""
    cure: str | None = None
    """The change with which the rest was judged."""


class Verdict(Shape):
    """The file verdict.json."""

    schema_version: int = Field(alias="schema")
    """Version of this form."""
    status: Literal["proven", "suspected", "healthy", "cannot_tell"]
    """The answer; healthy only where nothing is there and the run is seen to learn."""
    causes: list[FoundCause]
    """What is there, the answer first: proven before suspected before benign."""
    refuted: list[str]
    """Ids of causes that were tested and are not there."""
    untested: list[str]
    """Ids of causes that could not be tested."""
    errored: list[str]
    """Ids of causes whose judge failed."""
    details: dict[str, Detail]
    """The judgement of every cause, by its id."""
    steps: int
    """Steps that were observed."""
    seconds: float
    """How long the examination took; 0 where a saved run was judged."""


class Examined(Shape):
    """A verdict and the directory that holds all that it rests on."""

    directory: str
    """The run directory, for `examine` and `compare`; relative to where the server was started."""
    report: str
    """The report as a page for people."""
    verdict: Verdict
    """All that was found: the same as verdict.json in the directory."""


class Compared(Shape):
    """Two runs side by side."""

    markdown: str
    """The first step at which they part, settings that differ, curves in numbers."""


class KnownCause(Shape):
    """A cause of the catalogue."""

    id: str
    """Its id."""
    stage: str
    """Where such a fault sits; earlier stages outrank later ones."""
    summary: str
    """The fault in a line."""
    needs: list[str]
    """What has to be seen to judge it."""
    overlaps: list[str]
    """Causes that the same fault may also be blamed on."""


class Catalogue(Shape):
    """All causes."""

    causes: list[KnownCause]
    """Earlier stages first."""


class Explained(KnownCause):
    """A cause with its page."""

    page: str
    """Meaning, harm, how it is judged, how to fix it, when the verdict is wrong."""


class Slope(Shape):
    """Slopes along one direction."""

    name: str
    """The input that was moved, or all of them."""
    outcome: Outcome
    """What is found along it."""
    claimed: Number
    """Slope by the gradient that was given."""
    true: Number
    """Slope of the loss."""
    bound: Number
    """How far the two may differ by rounding and noise alone."""
    error: Number
    """The difference, as a share of the true slope."""
    how: str
    """How the true slope was found."""


class GradientChecked(Shape):
    """Whether a gradient is right."""

    outcome: Outcome
    """Cannot tell: the bound is too coarse to judge."""
    wrong: list[str]
    """Inputs whose gradient is wrong."""
    whole: Slope
    """Along one random direction through all inputs."""
    parts: list[Slope]
    """Along single inputs, where the whole is not right."""
