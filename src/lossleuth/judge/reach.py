"""How much of a run was seen: what was not reached is said, and never judged."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.types.evidence import Evidence

# How a record ends where we ended the run.
STOPPED = "stopped"
# Steps by which a schedule that is stepped at every update may be behind or ahead.
OFF = 1


@dataclass(frozen=True)
class Reach:
    """The part of a run that was seen."""

    # Whether the script came to its own end; None where that is not known.
    to_end: bool | None = None
    # Steps that a schedule of the script is made for, where those are more.
    planned: int | None = None

    def sentence(self, steps: int) -> str:
        """The same in words, of so many steps.

        >>> Reach(to_end=False, planned=2000).sentence(830)
        'judged: steps 1 to 830 of the 2 000 of its schedule; the run went on'
        >>> Reach(to_end=True).sentence(0)
        "no update was seen, to the script's own end"
        """
        seen = f"judged: steps 1 to {spaced(steps)}" if steps else "no update was seen"
        if self.to_end:
            return f"{seen}, to the script's own end"
        if self.planned is not None:
            seen += f" of the {spaced(self.planned)} of its schedule"
        return seen if self.to_end is None else f"{seen}; the run went on"


def reach(evidence: Evidence) -> Reach:
    """What was seen of a run.

    >>> from lossleuth.types.observed import Ending, Step
    >>> steps = [Step(n) for n in range(5)]
    >>> reach(Evidence(steps=steps, ending=Ending(how="stopped", planned=[(5, 100)])))
    Reach(to_end=False, planned=100)
    """
    ending, made = evidence.ending, steps_made(evidence)
    if ending.is_own:
        return Reach(to_end=True)
    before = _steps_before(evidence)
    plans = [before + total for at, total in ending.planned if abs(before + at - made) <= OFF]
    plans = [total for total in plans if total > made]
    return Reach(False if ending.how == STOPPED else None, max(plans, default=None))


def steps_made(evidence: Evidence) -> int:
    """How many steps were seen; of a long run only the beginning and the end are held."""
    last = max(len(evidence.steps), evidence.steps[-1].step + 1 if evidence.steps else 0)
    return _steps_before(evidence) + last


def _steps_before(evidence: Evidence) -> int:
    """Steps of earlier phases."""
    return 0 if evidence.phase is None else evidence.phase.first


def spaced(number: int) -> str:
    """A whole number with its thousands apart.

    >>> spaced(12345)
    '12 345'
    """
    return f"{number:,}".replace(",", " ")
