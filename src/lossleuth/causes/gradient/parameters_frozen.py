"""Parameters that an optimizer is to train ask for no gradient.

What it means
    `requires_grad` is off for tensors that the model uses and the optimizer holds.

Why training fails
    They stay as they were made; everything else has to work around them.

How it is judged
    Parameters in an optimizer, used in a recorded step, that ask for no gradient. Whether it
    matters is tried: the same run with gradients asked for. What is frozen and in no optimizer, as
    with adapters and probes, is meant so, unless most of the model is, comes from no file, the loss
    is no better than single tokens', and what is trained is not of far lower rank than what is
    frozen, as adapters are: then it is tried to train everything.

How to fix
    Switch `requires_grad` on for what is to be trained, after whatever switched it off.

When this verdict is wrong
    When all parameters are given to the optimizer although some are frozen on purpose; the trial
    decides only whether training them helps.
"""

from __future__ import annotations

from typing import Any

from lossleuth.causes.reasoning import (
    decided_by_trial,
    finite,
    first_place,
    frozen_share,
    optimizer_place,
    share,
    true_losses,
    unigram,
)
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

CURE, ALL = Change.of("unfreeze_parameters"), Change.of("train_everything")
# A frozen share that leaves little to learn with, and a loss that shows it, in nats.
MOSTLY, ABOVE, LEAST = 0.5, 0.05, 0.1
# So much of what is trained in matrices of low rank is nobody's accident.
ADAPTERS = 0.5


def judge(evidence: Evidence) -> Judgement:
    """Look for frozen parameters in the optimizers."""
    known = evidence.probed("coverage")
    if not known:
        return untested("no step with a backward pass and an update was recorded")
    frozen = known[-1]["frozen"]
    count = sum(f["elements"] for f in frozen)
    if not frozen:
        return _left_out(evidence, known[-1])
    part = share(count, count + sum(evidence.sizes))
    because = (
        f"{len(frozen)} tensors with {count} elements are in an optimizer, are used by the model "
        f"and ask for no gradient (such as {frozen[0]['name']}); expected 0."
    )
    where = Where(frozen[0]["file"], frozen[0]["line"], frozen[0]["module"])
    fault = Judgement(
        Status.SUSPECTED,
        because,
        _freezing(evidence) or where,
        Wrongness("share of frozen elements", part, 0.0, 0.0),
        remedy="Switch requires_grad on for the parameters that are to be trained.",
    )
    return decided_by_trial(evidence, fault, [CURE])


def _left_out(evidence: Evidence, known: Any) -> Judgement:
    """Most of a model that was never trained, frozen and in no optimizer, and nothing is learnt."""
    part = frozen_share(evidence)
    sound = f"all {known['held']} tensors in optimizers ask for gradients"
    losses, floor = true_losses(evidence), unigram(evidence)
    if not losses and floor is None:
        # Where neither logits nor targets are seen, what is differentiated and read has to do.
        losses = list(enumerate(finite(evidence.series("loss"))))
        floor = evidence.floors.get("unigram")
    loaded = (evidence.origins.get("weights") or {}).get("files")
    if part < MOSTLY or floor is None or not losses:
        return refuted(sound)
    if known.get("thin_share", 0.0) > ADAPTERS:
        return refuted(
            f"{sound}, and {known['thin_share']:.0%} of what is trained are matrices of low rank "
            "beside frozen ones: adapters"
        )
    if loaded and losses[0][1] < floor - ABOVE:
        return refuted(f"{sound}, and what comes from a file knows more than frequencies")
    end = losses[-1][1]
    if end < floor - ABOVE:
        return refuted(f"{sound}, and the loss ends at {end:.3f}, below single tokens' {floor:.3f}")
    fault = Judgement(
        Status.SUSPECTED,
        f"{part:.0%} of the parameters in use ask for no gradient, were never trained (the loss "
        f"starts at {losses[0][1]:.3f}), and it ends at {end:.3f}, no better than single tokens "
        f"({floor:.3f}).",
        _freezing(evidence),
        Wrongness("share of frozen elements", part, 0.0, 0.0),
        remedy="Switch requires_grad on for the parameters that are to be trained.",
    )
    return decided_by_trial(evidence, fault, [ALL], least=LEAST)


def _freezing(evidence: Evidence) -> Where | None:
    """The only line that switches gradients off, else where the optimizer is made."""
    return first_place([evidence.origins.get("freezing")]) or optimizer_place(evidence)


CAUSE = Cause(
    "parameters_frozen",
    Stage.GRADIENT,
    "parameters to be trained ask for no gradient",
    judge,
    ("coverage",),
)
