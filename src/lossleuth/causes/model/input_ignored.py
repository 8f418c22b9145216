"""The output does not depend on the input.

What it means
    Whatever tokens go in, the same logits come out: the embedding is multiplied by zero, the wrong
    tensor is passed on, or a normalisation removes everything.

Why training fails
    The model can only learn how frequent tokens are: the loss stays at their entropy.

How it is judged
    Tokens are changed where the program looks them up, and the step is replayed in float64: not one
    logit moves at the changed position, although logits differ from class to class. Proven by that
    alone, if it is so on every recorded step. Suspected where a part of the model, such as an
    encoder, gets one same token at every position while the rest gets the text, or where tokens
    that are looked up beside the text, such as a source that is to be translated, move no logit.

How to fix
    Follow the output of the embedding through the model and see where it is lost.

When this verdict is wrong
    A decoder that starts from nothing but masks, and looks at the text later, gets one same token
    by design, and a gate may be closed at first; that is why these are only suspected.
"""

from __future__ import annotations

import math

from lossleuth.causes.reasoning import first_place, true_losses, unigram
from lossleuth.findings.data import Alignment, TargetLines
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Leaks, OtherInput
from lossleuth.types.cause import Cause, Limit, always, missing
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Where, Wrongness, refuted, untested

MIN_DISTINCT_TARGETS = Limit(4, "fewest different targets of a batch that is a text")


def judge(evidence: Evidence) -> Judgement:
    """Look at the logits of the changed position itself."""
    constant = _constant(evidence)
    if constant is not None:
        return constant
    moves = _moves(evidence)
    if not moves:
        return untested(missing(Leaks, evidence))
    # Logits that are all the same, as those of a dead network, show nothing of the input.
    varied = [(own, leaks) for own, leaks, spread in moves if spread]
    ignoring = [
        (own, leaks)
        for own, leaks in varied
        if max(own, leaks.later or 0.0, leaks.whole or 0.0) <= leaks.floor
    ]
    if not varied and all(own <= leaks.floor for own, leaks, _ in moves):
        return untested("logits do not differ from class to class, or their spread is not known")
    if not varied or len(ignoring) < len(varied):
        if (part := _fed_one_token(evidence) or _lost_beside_the_text(evidence)) is not None:
            return part
        largest = max(own for own, _, _ in moves)
        return refuted(f"changing a token moves its own logits by {largest:.2g}, expected above 0")
    losses, floor = true_losses(evidence), unigram(evidence)
    compared = ""
    if losses and floor is not None:
        compared = f" The loss is {losses[-1][1]:.3f}, the entropy of single tokens {floor:.3f}."
    because = (
        f"Changing a token moves its logits by {max(own for own, _ in ignoring):.1e} of their "
        f"standard deviation on all of {len(ignoring)} recorded steps; it should be well above 0."
        f"{compared}"
    )
    lost = first_place(place for _, leaks in ignoring for place in leaks.lost_places)
    return Judgement(
        Status.PROVEN,
        because,
        lost or _loss_place(evidence),
        Wrongness("move of a token's own logits", 0.0, 1.0, ignoring[-1][1].floor),
        remedy="Find where the output of the embedding is lost on its way to the logits.",
    )


def _moves(evidence: Evidence) -> list[tuple[float, Leaks, float | None]]:
    """How far a token moves its own logits on each recorded step, and the spread of the logits."""
    found = []
    for step in evidence.recorded:
        leaks, true = step.first(Leaks), step.first(TrueLoss)
        if leaks is not None and leaks.own is not None and math.isfinite(leaks.own):
            spread = leaks.spread if true is None or true.logits_std is None else true.logits_std
            found.append((leaks.own, leaks, spread))
    return found


def _constant(evidence: Evidence) -> Judgement | None:
    """Whether the same token is looked up everywhere, whatever the targets are."""
    known = [a for a in evidence.all(Alignment) if a.distinct_targets >= MIN_DISTINCT_TARGETS]
    if len(known) < 2 or any(a.distinct_tokens > 1 for a in known):
        return None
    targets = known[-1].distinct_targets
    because = (
        f"The same 1 token is looked up at every position on all of {len(known)} recorded steps, "
        f"where the targets are {targets} different ones."
    )
    return Judgement(
        Status.PROVEN,
        because,
        _loss_place(evidence),
        Wrongness("different tokens in a batch", 1.0, float(targets), 0.0),
        remedy="See how the indices of the embedding are made.",
    )


def _fed_one_token(evidence: Evidence) -> Judgement | None:
    """Whether a part of the model gets the same token everywhere, and the rest gets the text."""
    known = evidence.all(Leaks)
    fed = [leaks for leaks in known if leaks.constant_places]
    if len(fed) < max(2, len(known)):
        return None
    because = (
        f"A part of the model gets one same token at every position of every text, on all of "
        f"{len(fed)} recorded steps, and takes it through trained layers by itself: what that part "
        "makes of the input is the same for every text."
    )
    return Judgement(
        Status.SUSPECTED,
        because,
        first_place(place for leaks in fed for place in leaks.constant_places),
        Wrongness("different tokens at the input of a part", 1.0, 2.0, 0.0),
        remedy="See whether that part is meant to get the text.",
    )


def _lost_beside_the_text(evidence: Evidence) -> Judgement | None:
    """Whether tokens beside those that the targets follow move no logit on any recorded step."""
    found: dict[tuple[str | None, int], list[OtherInput]] = {}
    for other in evidence.all(OtherInput):
        found.setdefault((other.place, other.number), []).append(other)
    steps = len(evidence.all(Leaks))
    lost = [
        (place, others)
        for (place, _), others in found.items()
        if len(others) >= max(2, steps) and all(other.moved <= other.floor for other in others)
    ]
    if not lost:
        return None
    place, others = lost[0]
    because = (
        f"Tokens are looked up beside the text, and changing all of them moves the logits by "
        f"{max(other.moved for other in others):.1e} of their standard deviation, on all of "
        f"{len(others)} recorded steps; it should be well above 0."
    )
    return Judgement(
        Status.SUSPECTED,
        because,
        first_place([place]),
        Wrongness("move of logits by other tokens", 0.0, 1.0, others[-1].floor),
        remedy="Find where these tokens are lost on their way to the logits.",
    )


def _loss_place(evidence: Evidence) -> Where | None:
    return first_place(lines.loss for lines in evidence.all(TargetLines))


CAUSE = Cause(
    "input_ignored",
    Stage.MODEL,
    "the output does not depend on the input",
    judge,
    # Nothing is needed: one token for all targets is proof without leaks.
    uses=(Leaks, OtherInput, Alignment, TrueLoss, TargetLines),
    limits=(MIN_DISTINCT_TARGETS,),
    overlaps=("dead_network",),
    voids_trials=True,
    is_core=always,
    by_recorded_steps=True,
)
