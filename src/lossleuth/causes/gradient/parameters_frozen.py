"""Parameters that an optimizer is to train ask for no gradient.

What it means
    `requires_grad` is off for tensors that the model uses and the optimizer holds.

Why training fails
    They stay as they were made; everything else has to work around them.

How it is judged
    Parameters in an optimizer, used in a recorded step, that ask for no gradient. Whether it
    matters is tried: the same run with gradients asked for. What is frozen and in no optimizer, as
    with adapters and probes, is taken as meant. The exception: most of the model is frozen, comes
    from no file, the loss is no better than what frequencies of single tokens give, and what is
    trained is not of far lower rank than what is frozen, as adapters are. Then it is tried to train
    everything. So is every run that leaves weights untrained which come from no file, beside no
    adapters and no teacher: where that wins 0.1 nat, the freezing is what holds it back.

How to fix
    Switch `requires_grad` on for what is to be trained, after whatever switched it off.

When this verdict is wrong
    When all parameters are given to the optimizer although some are frozen on purpose; the trial
    decides only whether training them helps.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import (
    MIN_EFFECT_NATS,
    decided_by_trial,
    finite,
    first_place,
    frozen_share,
    optimizer_place,
    share,
    sure_gain,
    true_losses,
    unigram,
)
from lossleuth.findings.distillation import Teaching
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.update import Coverage, Uncovered
from lossleuth.types.cause import Cause, Limit, always
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

REMEDY = "Switch requires_grad on for the parameters that are to be trained."
CURE, ALL = Change.of("unfreeze_parameters"), Change.of("train_everything")
MIN_FROZEN_SHARE = Limit(
    0.5, "least share of frozen parameters outside of optimizers that leaves too little to learn"
)
MIN_GAIN_ON_UNIGRAM = Limit(
    0.05, "least distance below the entropy of single tokens, in nats, of a loss that has learnt"
)
MAX_LOW_RANK_SHARE = Limit(
    0.5, "largest share of the trained elements in matrices of low rank that are no adapters"
)


def judge(evidence: Evidence) -> Judgement:
    """Look for frozen parameters in the optimizers."""
    known = [found for found in evidence.all(Coverage) if math.isfinite(found.frozen_share)]
    if not known:
        return untested("no share of frozen parameters was recorded")
    last = known[-1]
    return _held(evidence, last.frozen) if last.frozen else _left_out(evidence, last)


def _held(evidence: Evidence, frozen: tuple[Uncovered, ...]) -> Judgement:
    """Frozen parameters that an optimizer holds."""
    count = sum(tensor.elements for tensor in frozen)
    first = frozen[0]
    fault = Judgement(
        Status.SUSPECTED,
        f"{len(frozen)} tensors with {count} elements are in an optimizer, are used by the model "
        f"and ask for no gradient (such as {first.name}); expected 0.",
        _freezing(evidence) or Where(first.file, first.line, first.module),
        Wrongness("share of frozen elements", share(count, count + sum(evidence.sizes)), 0.0, 0.0),
        remedy=REMEDY,
    )
    return decided_by_trial(evidence, fault, [CURE])


def _left_out(evidence: Evidence, known: Coverage) -> Judgement:
    """Most of a model that was never trained, frozen and in no optimizer, and nothing is learnt."""
    part = frozen_share(evidence)
    sound = f"all {known.held} tensors in optimizers ask for gradients"
    if evidence.all(Teaching):
        return refuted(f"{sound}, and a teacher, which is beside them, is not to be trained")
    losses, floor = true_losses(evidence), unigram(evidence)
    if not losses and floor is None:
        # Where neither logits nor targets are seen, the loss that is differentiated has to do.
        losses = list(enumerate(finite(evidence.losses)))
        floor = evidence.floors.unigram
    if part and sure_gain(evidence, [ALL]) is not None:
        fault = Judgement(
            Status.SUSPECTED,
            f"{part:.0%} of the parameters in use ask for no gradient and come from no file.",
            _freezing(evidence),
            Wrongness("share of frozen elements", part, 0.0, 0.0),
            remedy=REMEDY,
        )
        return decided_by_trial(evidence, fault, [ALL])
    if part < MIN_FROZEN_SHARE or floor is None or not losses:
        return refuted(sound)
    if known.thin_share > MAX_LOW_RANK_SHARE:
        return refuted(
            f"{sound}, and {known.thin_share:.0%} of what is trained are matrices of low rank "
            "beside frozen ones: adapters"
        )
    start, end = losses[0][1], losses[-1][1]
    weights = evidence.origins.weights
    if weights is not None and weights.files and start < floor - MIN_GAIN_ON_UNIGRAM:
        return refuted(f"{sound}, and what comes from a file knows more than frequencies")
    if end < floor - MIN_GAIN_ON_UNIGRAM:
        return refuted(f"{sound}, and the loss ends at {end:.3f}, below single tokens' {floor:.3f}")
    fault = Judgement(
        Status.SUSPECTED,
        f"{part:.0%} of the parameters in use ask for no gradient, were never trained (the loss "
        f"starts at {start:.3f}), and the loss ends at {end:.3f}, no better than single tokens "
        f"({floor:.3f}).",
        _freezing(evidence),
        Wrongness("share of frozen elements", part, 0.0, 0.0),
        remedy=REMEDY,
    )
    return decided_by_trial(evidence, fault, [ALL])


def _freezing(evidence: Evidence) -> Where | None:
    """The only line that switches gradients off, else where the optimizer is made."""
    return first_place([evidence.origins.freezing]) or optimizer_place(evidence)


CAUSE = Cause(
    "parameters_frozen",
    Stage.GRADIENT,
    "parameters to be trained ask for no gradient",
    judge,
    needs=(Coverage,),
    uses=(TrueLoss, Teaching),
    limits=(
        MIN_FROZEN_SHARE,
        MIN_GAIN_ON_UNIGRAM,
        MAX_LOW_RANK_SHARE,
        MIN_EFFECT_NATS,
    ),
    relies_on=("lookups",),
    is_core=always,
)
