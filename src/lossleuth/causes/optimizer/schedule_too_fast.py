"""The schedule is over long before the run is.

What it means
    The rate falls to nearly nothing while most of the run is still to come: the schedule is stepped
    for every micro-batch, for every rank, or counts steps where epochs were meant.

Why training fails
    What is left of the run changes nothing, or, where the schedule swings, rises again and again.

How it is judged
    The sequence of rates that the optimizer had: a peak, then less than a hundredth of it for most
    of the observed run; and how often the schedule was stepped for each update. Whether it matters
    is tried: the same run with the rate held at its peak.

How to fix
    Step the schedule once per update, and give it the number of updates.

When this verdict is wrong
    When a short burst of training is meant.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import (
    decided_by_trial,
    finite,
    first_place,
    optimizer_place,
    setting_place,
)
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

FEWEST_STEPS = 16
# The rate is spent below this share of its peak, and the schedule too fast if it is so for most.
SPENT, MOST = 0.01, 0.5
LEAST = 0.05
CURE = Change.of("hold_lr")


def judge(evidence: Evidence) -> Judgement:
    """Look at the sequence of rates."""
    rates = finite(evidence.series("lr"))
    if len(rates) < FEWEST_STEPS:
        return untested(f"only {len(rates)} steps with a learning rate were seen")
    peak = max(rates)
    schedulers = evidence.settings.get("schedulers", ())
    asked = max((float(x) for x in _first_rates(evidence)), default=peak)
    if not peak or (peak == min(rates) and asked <= peak):
        return refuted(f"the rate is {peak:.3g} throughout")
    at = rates.index(peak)
    spent = sum(rate < SPENT * peak for rate in rates[at:])
    counts = [c for _, c in evidence.ending.get("scheduled") or () if c > 0]
    per_update = max(counts, default=0) / len(rates)
    if spent < MOST * len(rates):
        return refuted(
            f"the rate is below a hundredth of its peak of {peak:.3g} in {spent} of "
            f"{len(rates)} steps"
        )
    because = (
        f"The rate is below a hundredth of its peak of {peak:.3g} in {spent} of {len(rates)} "
        f"steps; the schedule was stepped {per_update:.2g} times per update."
    )
    made = [s.get("place") for s in schedulers]
    where = setting_place(evidence, "schedule") or first_place(made) or optimizer_place(evidence)
    fault = Judgement(
        Status.SUSPECTED,
        because,
        where,
        Wrongness("share of steps with a spent rate", spent / len(rates), 0.0, 0.0),
        remedy="Step the schedule once per update and make it as long as the run.",
    )
    return decided_by_trial(evidence, fault, [CURE], least=LEAST)


def _first_rates(evidence: Evidence) -> list[float]:
    groups = [g for o in evidence.settings.get("optimizers", ()) for g in o.get("groups", ())]
    return [g["initial_lr"] for g in groups if isinstance(g.get("initial_lr"), int | float)]


CAUSE = Cause(
    "schedule_too_fast",
    Stage.OPTIMIZER,
    "the schedule is over long before the run is",
    judge,
    ("rates",),
    overlaps=("lr_zero", "lr_too_low"),
)
