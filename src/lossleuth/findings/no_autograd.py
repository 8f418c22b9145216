"""Findings about steps without autograd."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class HandGradient(Finding):
    """A number that was read: how the gradient that was used compares with its true gradient."""

    place: str | None
    error: float
    floor: float
    cosine: float
    value: float | None = None


@dataclass(frozen=True)
class HandLoss(Finding):
    """The number that serves as the loss: the script reads it, and the parameters move it."""

    value: float
    # The line that reads it, and which of the numbers read there it is, in order.
    place: str
    which: int


@dataclass(frozen=True)
class HandStep(Finding):
    """How the gradient that was worked out by hand compares with the true one."""

    loss: float
    loss_place: str | None
    # The operation that makes the loss, to know it again in other steps.
    loss_operation: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    # Of the gradient as a whole.
    error: float
    floor: float
    place: str | None
    # The recorded batch's loss after so many updates of the program's own length.
    followed: int = 0
    along_own: float | None = None
    along_true: float | None = None
