"""The schedule is over long before the run is.

What it means
    The rate falls to nearly nothing while most of the run is still to come: the schedule is stepped
    for every micro-batch, for every rank, or counts steps where epochs were meant.

Why training fails
    The rest of the run changes nothing. Where the schedule is periodic, the rate rises again and
    again.

How it is judged
    The rate of every step, as the optimizer had it: a peak, then less than a hundredth of it for
    most of the observed run; and how often the schedule was stepped for each update. Whether it
    matters is tried: the same run with the rate held at its peak. Every run whose rate falls is
    tried with it held, and with a schedule four times as long; where one of these wins 0.1 nat over
    the script's own whole run, the schedule is too fast however low it goes.

How to fix
    Step the schedule once per update, and give it the number of updates.

When this verdict is wrong
    When a short burst of training is meant.
"""

from __future__ import annotations

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    covers_run,
    decided_by_trial,
    finite,
    schedule_place,
    sure_gain,
)
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_STEPS = Limit(16, "fewest steps with a learning rate")
MAX_SPENT_SHARE = Limit(0.01, "largest share of its peak at which a rate counts as spent")
MIN_SPENT_STEP_SHARE = Limit(0.5, "least share of the steps that have a spent rate")
CURE = Change.of("hold_lr")
# Tried where the rate does not fall so low.
CHALLENGES = (CURE, Change.of("stretch_schedule", factor=4.0))


def judge(evidence: Evidence) -> Judgement:
    """Look at the sequence of rates."""
    rates = finite(evidence.learning_rates)
    if len(rates) < MIN_STEPS:
        return untested(f"only {len(rates)} steps with a learning rate were seen")
    peak = max(rates)
    asked = max(finite(group.initial_lr for group in evidence.settings.groups), default=peak)
    if not peak or (peak == min(rates) and asked <= peak):
        return refuted(f"the rate is {peak:.3g} throughout")
    at = rates.index(peak)
    spent = sum(rate < MAX_SPENT_SHARE * peak for rate in rates[at:])
    low = (
        f"the rate is below {MAX_SPENT_SHARE:.0%} of its peak of {peak:.3g} in {spent} of "
        f"{len(rates)} steps"
    )
    gain = sure_gain(evidence, CHALLENGES)
    wins = gain is not None and covers_run(evidence, gain)
    if spent < MIN_SPENT_STEP_SHARE * len(rates) and not wins:
        return refuted(low)
    per_update = max((count for _, count in evidence.ending.scheduled), default=0) / len(rates)
    because = (
        f"{low[0].upper()}{low[1:]}; the schedule was stepped {per_update:.2g} times per update."
    )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        schedule_place(evidence),
        Wrongness("share of steps with a spent rate", spent / len(rates), 0.0, 0.0),
        remedy="Step the schedule once per update and make it as long as the run.",
    )
    change = gain.change if gain is not None and wins else CURE
    return decided_by_trial(evidence, fault, [change])


CAUSE = Cause(
    "schedule_too_fast",
    Stage.OPTIMIZER,
    "the schedule is over long before the run is",
    judge,
    limits=(MIN_STEPS, MAX_SPENT_SHARE, MIN_SPENT_STEP_SHARE, MIN_EFFECT_NATS),
    overlaps=("lr_zero", "lr_too_low"),
)
