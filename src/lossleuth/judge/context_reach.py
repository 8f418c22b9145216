"""How far back a token still matters: the distance over which changed tokens move logits."""

from __future__ import annotations

from lossleuth.findings.model import Leaks
from lossleuth.types.evidence import Evidence


def context_reach(evidence: Evidence) -> list[str]:
    """The same in a sentence; nothing where it was not measured.

    >>> from lossleuth.findings.recorded_step import RecordedStep
    >>> leaks = Leaks(0.0, 0.0, 1.0, 0.2, reach=5, length=32)
    >>> context_reach(Evidence(recorded=[RecordedStep(0, (leaks,))]))
    ['context reach: a token moves predictions up to 5 positions later, in texts of 32']
    """
    known = [leaks for leaks in evidence.all(Leaks) if leaks.reach is not None and leaks.length > 1]
    if not known:
        return []
    reach, length = max(leaks.reach or 0 for leaks in known), max(leaks.length for leaks in known)
    if not reach:
        return [f"context reach: no token moves a later prediction, in texts of {length}"]
    return [
        f"context reach: a token moves predictions up to {reach} positions later, in texts of "
        f"{length}"
    ]
