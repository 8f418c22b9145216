"""A fault that can be judged."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lossleuth.findings.finding import Finding, name_of
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, untested

# Where a limit comes from, if nobody knows: its page says so.
BY_HAND = "picked by hand"


# An expression of one line, and what should be in its place; and what finds such expressions among
# those of the line that is at fault.
Edit = tuple[ast.expr, str]
Fix = Callable[[ast.expr, Judgement], list[Edit]]


Patch = Literal["clipping", "loss scaling", "lookups", "data loaders"]


class Limit(float):
    """A number that a judge decides by, with what it bounds and where it comes from.

    >>> Limit(0.98, "least share of the targets that an offset explains") > 0.9
    True
    """

    def __new__(cls, value: float, bounds: str, source: str = BY_HAND) -> Limit:
        """A float that knows why it is what it is."""
        made = super().__new__(cls, value)
        made.bounds, made.source = bounds, source
        return made

    bounds: str
    source: str

    def __getnewargs__(self) -> tuple[float, str, str]:  # type: ignore[override]  # a float has one
        """What a copy is made of."""
        return float(self), self.bounds, self.source


def never(_: Evidence) -> bool:
    """Of a cause that no healthy run has to be tested for."""
    return False


def always(_: Evidence) -> bool:
    """Of one that every healthy run has to be tested for."""
    return True


@dataclass(frozen=True)
class Cause:
    """A fault by name: what stage it belongs to and how it is judged. Its page is its docstring."""

    id: str
    stage: Stage
    # One line for the list of causes.
    summary: str
    judge: Callable[[Evidence], Judgement]
    # What has to be known: findings of each kind, measured at least once. Without them the cause
    # is untested, with their reason.
    needs: tuple[type[Finding], ...] = ()
    # What the judge also looks at, where it is there. It is handed nothing else.
    uses: tuple[type[Finding], ...] = ()
    # Every number that the judge decides by; they are listed on the page.
    limits: tuple[Limit, ...] = ()
    # Patches of torch that it relies on beside those that every cause needs: if one could not be
    # applied, the cause is untested.
    relies_on: tuple[Patch, ...] = ()
    # Causes that the same fault may also be blamed on.
    overlaps: tuple[str, ...] = ()
    # Whether a run is healthy only if this was tested. That may depend on the run: one that prints
    # nothing has no number that could be another than what it follows.
    is_core: Callable[[Evidence], bool] = never
    # Whether true losses mean nothing while this fault is there.
    voids_trials: bool = False
    # Whether recorded steps prove it by themselves, so that it is said as soon as they do. Those
    # that need a finding do anyway.
    by_recorded_steps: bool = False
    # Whether it makes the loss that the script prints another number than the true loss.
    changes_printed_loss: bool = False
    # The edit of the faulty line that undoes it, where that can be written without guessing.
    fix: Fix | None = None

    @property
    def reads(self) -> tuple[type[Finding], ...]:
        """Every kind of finding that its judge is handed."""
        return (*self.needs, *self.uses)

    @property
    def needs_by_name(self) -> tuple[str, ...]:
        """What has to be known, in words for a list of causes."""
        return tuple(name_of(kind) for kind in self.needs)

    def judged(self, evidence: Evidence) -> Judgement:
        """What its judge says, which sees only what it has declared."""
        for kind in self.needs:
            if not evidence.all(kind):
                return untested(missing(kind, evidence))
        return self.judge(evidence.only(self.reads))


def missing(kind: type[Finding], evidence: Evidence) -> str:
    """Why there is no finding of a kind."""
    if not evidence.recorded:
        return "no step was recorded"
    reasons, errors = evidence.reasons(kind), evidence.errors(name_of(kind))
    if reasons:
        return reasons[0]
    words = name_of(kind).replace("_", " ")
    if errors:
        return f"lossleuth failed to measure the {words}: {errors[0]}"
    return f"the {words} could not be measured on any recorded step"
