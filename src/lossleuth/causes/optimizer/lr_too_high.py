"""The learning rate is too high.

What it means
    Steps overshoot: the loss rises, swings, sticks above what it could reach, or becomes NaN.

Why training fails
    Each step undoes more than it gains.

How it is judged
    By trial alone: the same run, from the same start and with the same batches, at lower rates.
    Every run is tried at 0.3 of its rate and at a tenth, one that shows a symptom at a hundredth
    too; one whose rate is raised and whose loss turns then is tried at the rate from before, over
    as many steps. Proven if the true loss then falls further by 0.1 nat and by more than three
    standard errors, over paired seeds that were not used to choose the rate, whatever share of the
    progress that is. Where the rate also drives a strong weight decay, the same run is tried
    without decay: if that helps as much, it is not the rate. Where every gradient that is used is
    exactly 0, no rate makes an update: then it is refuted.

How to fix
    Take the rate that the trial found better, or warm up to the present one.

When this verdict is wrong
    When a longer run at the present rate would end lower after all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from lossleuth.causes.edits import rescaled_rate
from lossleuth.causes.reasoning import (
    decided_by_trial,
    finite,
    frozen_share,
    optimizer_place,
    rate_is_idle,
    setting_place,
    sure_gain,
    true_losses,
    unigram,
)
from lossleuth.causes.turning import LIMITS as TURNING_LIMITS
from lossleuth.causes.turning import Turn, turn, window_means, window_width
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.update import Coverage
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_LOSSES = Limit(8, "fewest losses of a run that is judged")
MAX_FROZEN_SHARE = Limit(
    0.5, "largest share of frozen parameters with which a rate still says something"
)
# A run that shows no symptom may still do far better at a lower rate.
MAX_LEARNT = Limit(0.35, "largest share of its first value that a loss beyond suspicion ends at")
MAX_FALLEN = Limit(0.85, "largest share of its first value that a falling loss ends at")
MAX_LOST_AGAIN = Limit(0.15, "largest share of its fall that a loss which stays low has lost again")
MIN_RAISED = Limit(
    1.5, "least ratio of the rate after the loss turned to the highest one before, if it was raised"
)
MAX_WARMING = Limit(
    1.1, "largest growth of the rate over the second half of the steps before the loss turned"
)
MIN_JUMP = Limit(
    0.3, "least mean jump from step to step, as a share of its fall, of a swinging loss"
)
MIN_FALL_SWINGING = Limit(0.1, "least fall, in nats, that jumps are compared with")
MIN_GAIN_ON_UNIGRAM = Limit(
    0.1, "least distance below the entropy of single tokens, in nats, of a loss that has learnt"
)
MIN_GAIN = Limit(0.1, "least gain, in nats, of a trial at a lower rate, and least progress there")
MAX_SHRINKING = Limit(
    1e-3,
    "largest share of a weight that one step of weight decay takes without being strong",
    "it halves a weight in 693 steps",
)
MIN_BY_DECAY = Limit(
    0.7, "share of the lower rate's gain that a run without decay has to exceed to clear the rate"
)
WANTS = tuple(Change.of("scale_lr", factor=factor) for factor in (0.1, 0.01))
# Tried where nothing looks wrong.
CHALLENGES = tuple(Change.of("scale_lr", factor=factor) for factor in (0.1, 0.3))
NO_DECAY = Change.of("no_decay")


def judge(evidence: Evidence) -> Judgement:
    """Suspect it where the loss does not go down well, and try lower rates."""
    rates, losses = finite(evidence.learning_rates), evidence.losses
    if len(losses) < MIN_LOSSES:
        return untested(f"only {len(losses)} losses were seen")
    idle = rate_is_idle(evidence)
    if idle is not None:
        return refuted(idle)
    if frozen_share(evidence) > MAX_FROZEN_SHARE:
        return untested(f"{frozen_share(evidence):.0%} of the parameters in use are frozen")
    symptom = _symptom(evidence, losses)
    turned = turn(evidence)
    end, lowest = _mean(_tail(losses)), min(window_means(losses))
    stays = end <= lowest + MAX_LOST_AGAIN * (losses[0] - lowest)
    if evidence.cures and end < MAX_FALLEN * losses[0] and stays:
        # The second look is too short to get below single tokens; falling is all it can show.
        symptom = None
    elif symptom is None and end > MAX_LEARNT * losses[0]:
        symptom = f"the loss ends at {end:.3f}"
    gain = sure_gain(evidence, CHALLENGES, MIN_GAIN)
    if symptom is None and gain is not None:
        symptom = f"the loss goes down, to {end:.3f}"
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
    raised = None if turned is None else _raised_from(evidence, turned)
    if turned is not None and raised is not None:
        because = (
            f"From step {turned.step} on the learning rate goes from {raised:.3g} up to "
            f"{max(rates):.3g}, and {turned.sentence}."
        )
        fault = replace(fault, because=because)
        rates_tried: tuple[Change, ...] = (Change.of("cap_lr", rate=raised),)
    else:
        rates_tried = WANTS if gain is None else (gain.change,)
    decided = decided_by_trial(evidence, fault, rates_tried, min_effect=MIN_GAIN)
    if decided.status is Status.PROVEN and decided.harm is not None:
        harm = decided.harm
        if harm.possible < MIN_GAIN:
            return refuted(f"no rate learns, the other one is only less bad: {harm.sentence}")
        if _decays(evidence):
            decay = evidence.effects.get(NO_DECAY)
            if decay is None and NO_DECAY not in evidence.failed:
                return replace(
                    decided, status=Status.SUSPECTED, harm=None, trials_wanted=(NO_DECAY,)
                )
            if decay is not None and decay.is_better and decay.nats > MIN_BY_DECAY * harm.nats:
                return refuted(f"at the same rate without weight decay: {decay.sentence}")
        wrongness = Wrongness("loss at this rate", harm.without, harm.with_change, harm.error)
        return replace(decided, wrongness=wrongness)
    if decided.status is Status.BENIGN:
        return refuted(decided.because)
    return decided


def _decays(evidence: Evidence) -> bool:
    """Whether weight decay is strong."""
    rate = max(finite(evidence.learning_rates), default=0.0)
    decays = [group.weight_decay or 0.0 for group in evidence.settings.groups]
    return any(rate * decay > MAX_SHRINKING for decay in decays)


def _symptom(evidence: Evidence, losses: list[float]) -> str | None:
    """What a loss does that does not go down well."""
    if not all(map(math.isfinite, losses)):
        return "the loss does not stay finite"
    true = true_losses(evidence)
    floor = unigram(evidence)
    tail = _tail(losses)
    end = _mean(tail)
    turned = turn(evidence)
    if turned is not None:
        return turned.sentence
    if floor is not None and true and true[-1][1] > floor - MIN_GAIN_ON_UNIGRAM:
        return f"the loss ends at {true[-1][1]:.3f}, no better than single tokens ({floor:.3f})"
    jumps = [abs(b - a) for a, b in pairwise(tail)]
    if jumps and _mean(jumps) > MIN_JUMP * max(abs(losses[0] - end), MIN_FALL_SWINGING):
        return "the loss swings from step to step"
    return None


def _raised_from(evidence: Evidence, turned: Turn) -> float | None:
    """The rate before the run turned, if it was raised from there, and not by a warm-up."""
    before = [s.lr for s in evidence.steps if s.lr is not None and s.step < turned.step]
    after = [s.lr for s in evidence.steps if s.lr is not None and s.step >= turned.step]
    if not before or not after or before[-1] > MAX_WARMING * before[len(before) // 2]:
        return None
    highest = max(before)
    return highest if 0 < MIN_RAISED * highest < max(after) else None


def _tail(losses: list[float]) -> list[float]:
    return losses[-window_width(losses) :]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


CAUSE = Cause(
    "lr_too_high",
    Stage.OPTIMIZER,
    "steps overshoot",
    judge,
    uses=(TrueLoss, Coverage),
    limits=(
        MIN_LOSSES,
        *TURNING_LIMITS,
        MIN_RAISED,
        MAX_WARMING,
        MAX_FROZEN_SHARE,
        MAX_LEARNT,
        MAX_FALLEN,
        MAX_LOST_AGAIN,
        MIN_JUMP,
        MIN_FALL_SWINGING,
        MIN_GAIN_ON_UNIGRAM,
        MIN_GAIN,
        MAX_SHRINKING,
        MIN_BY_DECAY,
    ),
    overlaps=("loss_scale", "init_too_large", "update_rule_wrong", "gradient_not_cleared"),
    fix=rescaled_rate,
    relies_on=("loss scaling",),
)
