"""What is found of rounding and overflow."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.findings.finding import Finding


@dataclass(frozen=True)
class OperationError(Finding):
    """An operation and its own rounding error, as a share of its result's norm."""

    name: str
    file: str | None
    line: int | None
    module: str | None
    dtype: str
    error: float


@dataclass(frozen=True)
class FirstNonFinite(Finding):
    """The first operation that turned finite numbers into others."""

    name: str
    file: str | None
    line: int | None
    module: str | None
    # "nan" or "inf", and the largest number that went in.
    what: str
    largest_input: float
