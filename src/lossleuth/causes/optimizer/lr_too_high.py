"""The learning rate is too high.

What it means
    Steps overshoot: the loss rises, swings, sticks above what it could reach, or is no number.

Why training fails
    Each step undoes more than it gains.

How it is judged
    By trial alone: the same run, from the same start and with the same batches, at a tenth and a
    hundredth of the rate. Proven if the true loss then falls much further, by more than three
    standard errors over paired seeds. Where the rate also drives a strong weight decay, the run is
    made without decay as well: if that helps as much, it is not the rate.

How to fix
    Take the rate that the trial found better, or warm up to the present one.

When this verdict is wrong
    When a longer run at the present rate would overtake; a run that learns well is not suspected.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from lossleuth.causes.reasoning import (
    decided_by_trial,
    finite,
    frozen_share,
    optimizer_place,
    setting_place,
    true_losses,
    unigram,
)
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

FACTORS = (0.1, 0.01)
WANTS = tuple(Change.of("scale_lr", factor=f) for f in FACTORS)
# Of the progress that the lower rate makes, what the present one makes at most.
PROGRESS = 0.7
# A loss that falls to less than this share of its start is beyond suspicion.
WELL = 0.35
FALLING, BACK = 0.85, 0.15
# With more than this share of the parameters frozen, a rate says little.
MOSTLY = 0.5
LEAST = 0.1
# Shrinking by so much in each step halves a weight in less than 700 steps.
DECAY = 1e-3
NO_DECAY = Change.of("no_decay")


def judge(evidence: Evidence) -> Judgement:
    """Suspect it where the loss does not go down well, and try lower rates."""
    rates = finite(evidence.series("lr"))
    losses = [float(x) for x in evidence.series("loss")]
    if len(losses) < 8:
        return untested(f"only {len(losses)} losses were seen")
    if frozen_share(evidence) > MOSTLY:
        return untested(f"{frozen_share(evidence):.0%} of the parameters in use are frozen")
    symptom = _symptom(evidence, losses)
    tail = losses[-max(4, len(losses) // 10) :]
    end = sum(tail) / len(tail)
    lowest = _lowest(losses)
    stays = end <= lowest + BACK * (losses[0] - lowest)
    if evidence.cures and end < FALLING * losses[0] and stays:
        # The second look is too short to get below single tokens; falling is all it can show.
        symptom = None
    elif symptom is None and end > WELL * losses[0]:
        # No symptom, and still a lower rate may do far better.
        symptom = f"the loss ends at {end:.3f}"
    if symptom is None:
        return refuted(
            f"the loss goes down steadily, from {losses[0]:.3f} to {losses[-1]:.3f}: steps do not "
            "overshoot"
        )
    rate = f"At a learning rate of {max(rates):.3g}, {symptom}." if rates else f"{symptom}."
    fault = Judgement(
        Status.SUSPECTED,
        rate[0].upper() + rate[1:],
        setting_place(evidence, "lr") or optimizer_place(evidence),
        remedy="Lower the learning rate as in the trial.",
    )
    decided = decided_by_trial(evidence, fault, WANTS, least=LEAST)
    if decided.status is Status.PROVEN and decided.harm is not None:
        harm = decided.harm
        if harm.possible < LEAST:
            return refuted(f"no rate learns, the other one is only less bad: {harm.sentence}")
        if harm.makes_without(PROGRESS):
            return refuted(f"the present rate makes most of the progress: {harm.sentence}")
        if _decays(evidence):
            decay = evidence.effects.get(NO_DECAY)
            if decay is None and NO_DECAY not in evidence.failed:
                return replace(
                    decided, status=Status.SUSPECTED, harm=None, trials_wanted=(NO_DECAY,)
                )
            if decay is not None and decay.is_better and decay.nats > PROGRESS * harm.nats:
                return refuted(f"at the same rate without weight decay: {decay.sentence}")
        wrongness = Wrongness("loss at this rate", harm.without, harm.with_change, harm.error)
        return replace(decided, wrongness=wrongness)
    if decided.status is Status.BENIGN:
        return refuted(decided.because)
    return decided


def _decays(evidence: Evidence) -> bool:
    """Whether an update shrinks weights by more than they would forgive."""
    groups = [g for o in evidence.settings.get("optimizers", ()) for g in o.get("groups", ())]
    rate = max(finite(evidence.series("lr")), default=0.0)
    return any(rate * float(g.get("weight_decay") or 0.0) > DECAY for g in groups)


def _symptom(evidence: Evidence, losses: list[float]) -> str | None:
    if not all(map(math.isfinite, losses)):
        return "the loss does not stay finite"
    true = true_losses(evidence)
    floor = unigram(evidence)
    tail = losses[-max(4, len(losses) // 10) :]
    end, lowest = sum(tail) / len(tail), _lowest(losses)
    if end > lowest + 0.1 * max(abs(losses[0] - lowest), 0.3):
        return f"the loss falls to {lowest:.3f} and ends at {end:.3f}"
    if floor is not None and true and true[-1][1] > floor - 0.1:
        return f"the loss ends at {true[-1][1]:.3f}, no better than single tokens ({floor:.3f})"
    jumps = [abs(b - a) for a, b in pairwise(tail)]
    if jumps and sum(jumps) / len(jumps) > 0.3 * max(abs(losses[0] - end), 0.1):
        return "the loss swings from step to step"
    return None


def _lowest(losses: list[float]) -> float:
    """The lowest mean over a tenth of the run: single batches are noisy."""
    width = max(4, len(losses) // 10)
    means = [sum(losses[i : i + width]) / width for i in range(0, len(losses) - width + 1)]
    return min(means)


CAUSE = Cause(
    "lr_too_high",
    Stage.OPTIMIZER,
    "steps overshoot",
    judge,
    ("losses", "trials"),
    overlaps=("loss_scale", "init_too_large", "update_rule_wrong", "gradient_not_cleared"),
)
