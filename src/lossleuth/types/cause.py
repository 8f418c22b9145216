"""A fault that can be judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage


@dataclass(frozen=True)
class Cause:
    """A fault by name: what stage it belongs to and how it is judged. Its page is its docstring."""

    id: str
    stage: Stage
    # One line for the list of causes.
    summary: str
    judge: Callable[[Evidence], Judgement]
    # What the judge needs to see, for the list of causes.
    needs: tuple[str, ...] = ()
    # Causes that the same fault may also be blamed on.
    overlaps: tuple[str, ...] = ()
    # Whether true losses mean nothing while this fault is there.
    voids_trials: bool = False
