"""Everything that a report shows, as typed values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lossleuth.findings.gradient import GradientTruth
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.precision import OperationError
from lossleuth.judge.verdict import Verdict
from lossleuth.report.document.matrix import Floats, Matrix
from lossleuth.types.change import Change
from lossleuth.types.observed import Floors, Origins

# Findings that a report shows.
READS = (GradientTruth, OperationError, TrueLoss)


@dataclass(frozen=True)
class TrialRun:
    """One run of a trial: its changes and its loss at each step."""

    changes: tuple[Change, ...]
    seed: int
    steps: int
    losses: Floats
    # The first step of the phase that it is a trial of; losses are those from there on.
    first: int = 0


@dataclass(frozen=True)
class GitState:
    """The script's commit, and whether files differ from it."""

    commit: str = ""
    changed: bool = False


@dataclass(frozen=True)
class Header:
    """The start of a record: what was run, where and when."""

    script: str = ""
    arguments: Sequence[str] = ()
    working_directory: str = ""
    python: str = ""
    platform: str = ""
    git: GitState | None = None
    # Seconds since the epoch.
    started: float | None = None


@dataclass(frozen=True)
class Rounding:
    """Rounding error of the gradient at the worst recorded step, and of operations there."""

    # Relative to the gradient's norm.
    gradient_error: float = math.nan
    operations: Sequence[OperationError] = ()


@dataclass(frozen=True)
class Facts:
    """Everything that the report shows, as plain numbers."""

    verdict: Verdict
    header: Header = field(default_factory=Header)
    state: str = ""
    # Damage to the record itself.
    problem: str | None = None
    steps: Floats = field(default_factory=lambda: np.zeros(0))
    series: Mapping[str, Floats] = field(default_factory=dict)
    # Numbers that the script reads, by the line that reads them.
    reads: Mapping[str, Floats] = field(default_factory=dict)
    matrices: Mapping[str, Matrix] = field(default_factory=dict)
    # By step, where it is known.
    true_losses: Mapping[int, float] = field(default_factory=dict)
    # Steps and losses of references that were trained on the same batches.
    references: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    vocabulary: int | None = None
    floors: Floors = field(default_factory=Floors)
    # As recorded: the report lists whatever settings the optimizers have.
    settings: Mapping[str, Any] = field(default_factory=dict)
    origins: Origins = field(default_factory=Origins)
    packages: Mapping[str, str] = field(default_factory=dict)
    trials: Sequence[TrialRun] = ()
    rounding: Rounding = field(default_factory=Rounding)
    # The largest output of each watched module.
    largest_activations: Sequence[float] = ()

    def of(self, name: str) -> Floats:
        """A scalar at each step; NaN where it was not recorded."""
        series = self.series.get(name)
        return np.full(len(self.steps), np.nan) if series is None else series
