"""The learning rate is too low to learn in the run.

What it means
    Steps go the right way and are far too short: the loss falls by a fraction of what the same
    number of steps could do.

Why training fails
    It does not fail, it would take a hundred times as long.

How it is judged
    By trial alone: the same run, from the same start and with the same batches, at 10 and 100
    times the rate. Proven if the present rate makes only a small part of the progress. A rate that
    is still rising in a warm-up is left out. Where a program updates by hand, and its first update
    is not the gradient times one number, the rule may be at fault as well: then it is suspected.

How to fix
    Take the rate that the trial found better.

When this verdict is wrong
    When a trained model is to be changed as little as possible.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lossleuth.causes.edits import rescaled_rate
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

FACTORS = (10.0, 100.0)
WANTS = tuple(Change.of("scale_lr", factor=f) for f in FACTORS)
# Of the progress that the higher rate makes, what the present one makes at most.
PROGRESS = 0.25
# With more than this share of the parameters frozen, a rate says little.
MOSTLY = 0.5
LEAST = 0.3
# A rate that has grown by this factor over the second half is in a warm-up.
RISING = 1.1
# How alike the sizes of an update over those of the gradient are where a number makes one of it.
ALONG, UNLIKE = 0.9, 3.0


def judge(evidence: Evidence) -> Judgement:
    """Suspect it where the loss hardly moves, and try higher rates."""
    rates, losses = finite(evidence.series("lr")), finite(evidence.series("loss"))
    if len(losses) < 8:
        return untested(f"only {len(losses)} losses were seen")
    if frozen_share(evidence) > MOSTLY:
        return untested(f"{frozen_share(evidence):.0%} of the parameters in use are frozen")
    cut_short = evidence.ending.get("how") == "stopped"
    if cut_short and rates and rates[-1] == max(rates) > RISING * rates[len(rates) // 2]:
        return untested(f"the rate is still rising, at {rates[-1]:.3g}, where the run was stopped")
    floor, true = unigram(evidence), true_losses(evidence)
    tail = losses[-max(4, len(losses) // 10) :]
    end = sum(tail) / len(tail)
    if losses[0] and (losses[0] - end) > 0.35 * abs(losses[0]):
        return refuted(f"the loss falls from {losses[0]:.3f} to {end:.3f}: steps are long enough")
    if floor is not None and true and true[0][1] < floor - 0.3:
        return refuted(
            f"the run starts at {true[0][1]:.3f}, below the {floor:.3f} of single tokens: a "
            "trained model, for which small steps are meant"
        )
    if end > losses[0] + 0.2 * abs(losses[0]):
        return refuted(f"the loss rises from {losses[0]:.3f} to {end:.3f}: steps are long enough")
    rate = f"{max(rates):.3g}" if rates else "unknown"
    fault = Judgement(
        Status.SUSPECTED,
        f"At a learning rate of {rate}, the loss goes from {losses[0]:.3f} to {end:.3f}.",
        setting_place(evidence, "lr") or optimizer_place(evidence),
        remedy="Raise the learning rate as in the trial.",
    )
    decided = decided_by_trial(evidence, fault, WANTS, least=LEAST)
    if decided.status is Status.PROVEN and decided.harm is not None:
        harm = decided.harm
        if harm.possible < LEAST:
            return refuted(f"no rate learns, the other one is only less bad: {harm.sentence}")
        if harm.makes_without(PROGRESS):
            return refuted(f"the present rate makes a fair part of the progress: {harm.sentence}")
        wrongness = Wrongness("loss at this rate", harm.without, harm.with_change, harm.error)
        decided = replace(decided, wrongness=wrongness)
        if not rates and not _is_along_gradient(evidence):
            told = (
                f"{decided.because} The rate is not known, and the first update is not the "
                "gradient times a number: it may as well be the rule of the update."
            )
            return replace(decided, status=Status.SUSPECTED, because=told, cure=None)
        return decided
    if decided.status is Status.BENIGN:
        return refuted(decided.because)
    return decided


def _is_along_gradient(evidence: Evidence) -> bool:
    """Whether the first update is the gradient times one number, the same for all parameters.

    Where gradients are not seen, that is told from updates that are of different sizes: a rule that
    divides by the gradient's size makes them all alike.
    """
    updates, gradients = (evidence.columns.get(name) or () for name in ("update_rms", "grad_rms"))
    for after, before in zip(updates, gradients, strict=False):
        made = [u for u in after if math.isfinite(u) and u > 0]
        pairs = zip(after, before, strict=True)
        factors = [u / g for u, g in pairs if math.isfinite(u) and math.isfinite(g) and g > 0]
        if made and factors:
            return min(factors) > ALONG * max(factors)
        if made:
            return max(made) > UNLIKE * min(made)
    return True


CAUSE = Cause(
    "lr_too_low",
    Stage.OPTIMIZER,
    "steps are too small to learn in the run",
    judge,
    ("losses", "trials"),
    overlaps=("loss_scale", "clip_too_tight", "schedule_too_fast", "lr_zero", "dead_network"),
    fix=rescaled_rate,
)
