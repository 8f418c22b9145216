"""The learning rate is too low to learn in the run.

What it means
    Steps go the right way and are far too short: the loss falls by a fraction of what the same
    number of steps could do.

Why training fails
    It does not fail, it would only take many times as long.

How it is judged
    By trial alone: the same run, from the same start and with the same batches, at 10 and 100
    times the rate. A higher rate often wins at first and loses in the long run, so it has to win by
    0.1 nat over the script's own whole run, or the present rate to make only a small part of the
    progress. A rate that is still rising in a warm-up is left out. Where a program updates by hand,
    and its first update
    is not the gradient times one number, the rule may be at fault instead: then it is suspected.
    Where every gradient that is used is exactly 0, no rate makes an update: then it is refuted.
    Where weights move by more than their updates, something else writes to them: then a higher rate
    may only make up for that, and the cause is untested; so it is where updates are lost in the
    rounding of the weights, or taken back.

How to fix
    Take the rate that the trial found better.

When this verdict is wrong
    When a trained model is to be changed as little as possible.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lossleuth.causes.edits import rescaled_rate
from lossleuth.causes.optimizer.update_undone import MIN_SHARE as MIN_UNDONE
from lossleuth.causes.optimizer.update_undone import share_undone
from lossleuth.causes.precision.update_swallowed import MIN_LOST_SHARE, may_be_cured_by_rate
from lossleuth.causes.reasoning import (
    covers_run,
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
from lossleuth.causes.rewritten import LIMITS as REWRITTEN_LIMITS
from lossleuth.causes.rewritten import rewritten
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.update import Coverage, Undone
from lossleuth.types.cause import Cause, Limit
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_LOSSES = Limit(8, "fewest losses of a run that is judged")
MIN_WINDOW = Limit(4, "fewest losses that a mean is taken over")
WINDOWS_OF_RUN = Limit(10, "means are taken over one in so many of the run's losses")
MAX_FROZEN_SHARE = Limit(
    0.5, "largest share of frozen parameters with which a rate still says something"
)
MIN_WARM_UP = Limit(1.1, "least growth of a rate over the second half of a warm-up")
MAX_FALL = Limit(0.35, "largest share of its first value that a loss falls which hardly moves")
MAX_RISE = Limit(0.2, "largest share of its first value that a loss rises which hardly moves")
MIN_TRAINED = Limit(
    0.3,
    "least distance below the entropy of single tokens, in nats, at which a trained model starts",
)
MIN_GAIN = Limit(0.1, "least gain, in nats, of a trial at a higher rate, and least progress there")
MAX_PROGRESS = Limit(
    0.25,
    "largest share of the higher rate's progress that a rate makes which is too low, where the "
    "trial is shorter than the run",
)
MIN_ALIKE = Limit(
    0.9,
    "least ratio of the smallest to the largest update over gradient, parameter by parameter, "
    "where the update is the gradient times a number",
)
MIN_UNLIKE = Limit(
    3,
    "least ratio of the largest to the smallest update of a rule that does not divide by the "
    "gradient's size",
)
WANTS = tuple(Change.of("scale_lr", factor=factor) for factor in (10.0, 100.0))
# Tried where nothing looks wrong. A smaller factor than that is nobody's fault.
CHALLENGE = WANTS[0]


def judge(evidence: Evidence) -> Judgement:
    """Suspect it where the loss hardly moves, and try higher rates."""
    rates, losses = finite(evidence.learning_rates), finite(evidence.losses)
    if len(losses) < MIN_LOSSES:
        return untested(f"only {len(losses)} losses were seen")
    idle = rate_is_idle(evidence)
    if idle is not None:
        return refuted(idle)
    if frozen_share(evidence) > MAX_FROZEN_SHARE:
        return untested(f"{frozen_share(evidence):.0%} of the parameters in use are frozen")
    writes = rewritten(evidence)
    if writes:
        return untested(
            f"weights moved by more than their updates at {len(writes)} steps: something else "
            "writes to them, and longer steps may only make up for it"
        )
    lost = may_be_cured_by_rate(evidence)
    if lost:
        return untested(lost)
    undone = share_undone(evidence.all(Undone))
    if undone >= MIN_UNDONE:
        return untested(
            f"{undone:.0%} of an update is taken back before the next step begins: longer steps "
            "may only make up for it"
        )
    if evidence.ending.how == "stopped" and _warms_up(rates):
        return untested(f"the rate is still rising, at {rates[-1]:.3g}, where the run was stopped")
    floor, true = unigram(evidence), true_losses(evidence)
    tail = losses[-max(int(MIN_WINDOW), len(losses) // int(WINDOWS_OF_RUN)) :]
    end = sum(tail) / len(tail)
    gain = sure_gain(evidence, [CHALLENGE], MIN_GAIN)
    if gain is not None and covers_run(evidence, gain):
        return _decided(evidence, _fault(evidence, rates, losses, end), (CHALLENGE,))
    if losses[0] and (losses[0] - end) > MAX_FALL * abs(losses[0]):
        return refuted(f"the loss falls from {losses[0]:.3f} to {end:.3f}: steps are long enough")
    if floor is not None and true and true[0][1] < floor - MIN_TRAINED:
        return refuted(
            f"the run starts at {true[0][1]:.3f}, below the {floor:.3f} of single tokens: a "
            "trained model, for which small steps are meant"
        )
    if end > losses[0] + MAX_RISE * abs(losses[0]):
        return refuted(f"the loss rises from {losses[0]:.3f} to {end:.3f}: steps are long enough")
    return _decided(evidence, _fault(evidence, rates, losses, end), WANTS)


def _fault(evidence: Evidence, rates: list[float], losses: list[float], end: float) -> Judgement:
    rate = f"{max(rates):.3g}" if rates else "unknown"
    return Judgement(
        Status.SUSPECTED,
        f"At a learning rate of {rate}, the loss goes from {losses[0]:.3f} to {end:.3f}.",
        setting_place(evidence, "lr") or optimizer_place(evidence),
        remedy="Raise the learning rate as in the trial.",
    )


def _decided(evidence: Evidence, fault: Judgement, changes: tuple[Change, ...]) -> Judgement:
    """By the trials at higher rates."""
    decided = decided_by_trial(evidence, fault, changes, min_effect=MIN_GAIN)
    if decided.status is Status.PROVEN and decided.harm is not None:
        harm = decided.harm
        if harm.possible < MIN_GAIN:
            return refuted(f"no rate learns, the other one is only less bad: {harm.sentence}")
        if not covers_run(evidence, harm) and harm.makes_without(MAX_PROGRESS):
            return untested(
                "a higher rate wins a trial that is shorter than the run, as it often does: "
                f"{harm.sentence}"
            )
        wrongness = Wrongness("loss at this rate", harm.without, harm.with_change, harm.error)
        decided = replace(decided, wrongness=wrongness)
        if not finite(evidence.learning_rates) and not _is_along_gradient(evidence):
            because = (
                f"{decided.because} The rate is not known, and the first update is not the "
                "gradient times a number: the rule of the update may be at fault instead."
            )
            return replace(decided, status=Status.SUSPECTED, because=because, cure=None)
        return decided
    if decided.status is Status.BENIGN:
        return refuted(decided.because)
    return decided


def _warms_up(rates: list[float]) -> bool:
    return bool(rates) and rates[-1] == max(rates) > MIN_WARM_UP * rates[len(rates) // 2]


def _is_along_gradient(evidence: Evidence) -> bool:
    """Whether the first update is the gradient times one number, the same for all parameters.

    Where gradients are not seen, updates of different sizes show it: a rule that divides by the
    gradient's size makes them all alike.
    """
    readings = evidence.readings
    for after, before in zip(readings.update_rms, readings.grad_rms, strict=False):
        made = [u for u in after if math.isfinite(u) and u > 0]
        pairs = zip(after, before, strict=True)
        factors = [u / g for u, g in pairs if math.isfinite(u) and math.isfinite(g) and g > 0]
        if made and factors:
            return min(factors) > MIN_ALIKE * max(factors)
        if made:
            return max(made) > MIN_UNLIKE * min(made)
    return True


CAUSE = Cause(
    "lr_too_low",
    Stage.OPTIMIZER,
    "steps are too small to learn in the run",
    judge,
    uses=(TrueLoss, Coverage, Undone),
    limits=(
        MIN_LOSSES,
        MIN_WINDOW,
        WINDOWS_OF_RUN,
        MAX_FROZEN_SHARE,
        MIN_WARM_UP,
        MAX_FALL,
        MAX_RISE,
        MIN_TRAINED,
        MIN_GAIN,
        MAX_PROGRESS,
        MIN_ALIKE,
        MIN_UNLIKE,
        MIN_LOST_SHARE,
        MIN_UNDONE,
        *REWRITTEN_LIMITS,
    ),
    overlaps=("loss_scale", "clip_too_tight", "schedule_too_fast", "lr_zero", "dead_network"),
    fix=rescaled_rate,
    relies_on=("loss scaling",),
)
