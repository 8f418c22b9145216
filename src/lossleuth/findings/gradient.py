"""Findings about gradients."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class ParameterTruth:
    """One parameter: its error as a share of the whole gradient's norm, and the floor of that."""

    name: str
    error: float
    floor: float
    untested: str | None = None


@dataclass(frozen=True)
class GradientTruth(Finding):
    """The whole gradient of one backward pass; `untested` says why nothing can be said."""

    error: float
    floor: float
    cosine: float
    scale: float
    parameters: tuple[ParameterTruth, ...]


@dataclass(frozen=True)
class CustomFunction(Finding):
    """One call: error of what its backward gave, relative to the truth, and the floor of that."""

    name: str
    file: str | None
    line: int | None
    error: float
    floor: float
    # Whether it is a straight-through step function, which is no error.
    straight_through: bool = False
    # The entries that the error was measured on, where they are not all.
    part: str | None = None
    # The shared library that its backward calls.
    library: str | None = None
    # Whether it computes outside torch, so that torch cannot differentiate its forward.
    outside: bool = False


@dataclass(frozen=True)
class BackwardHook(Finding):
    """A tensor with hooks: where they were written, and the error of its gradient after them."""

    tensor: str
    places: tuple[str, ...]
    error: float | None
    floor: float | None


@dataclass(frozen=True)
class Cut:
    """A line at which gradients end."""

    file: str | None
    line: int | None
    operation: str


@dataclass(frozen=True)
class GraphCuts(Finding):
    """What the cuts of a backward pass cost: the share of the opened gradient that is lost."""

    lost_share: float | None
    # Trained parameters that get nothing at all because of cuts.
    starved: tuple[str, ...]
    # Trained parameters whose gradient changes because of cuts.
    changed: tuple[str, ...]
    places: tuple[Cut, ...]


@dataclass(frozen=True)
class LogitGradient(Finding):
    """One backward pass: direction and size against cross-entropy's own gradient."""

    cosine: float | None
    scale: float | None
    # Supervised targets.
    count: int


@dataclass(frozen=True)
class ReportedNumber(Finding):
    """A number that the user reads: cosine of its gradient with the loss's own."""

    place: str | None
    cosine: float | None
    value: float | None = None


@dataclass(frozen=True)
class StaleGradient(Finding):
    """Size of the gradient that was there before the first backward pass, over the step's own."""

    share: float
