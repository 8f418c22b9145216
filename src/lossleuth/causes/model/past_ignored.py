"""Nothing but the token at a position reaches its logits.

What it means
    The parts that should look back do not: attention sees only its own position, a convolution is
    one token wide, a state is reset at every token, or what comes from before is multiplied by
    zero.

Why training fails
    The loss falls to what one token tells about the next, and stays there.

How it is judged
    Tokens are changed where the program looks them up, and the step is replayed in float64: on no
    recorded step does a change move the logits of a later position, though something in the model
    was made for that: attention, a convolution, a recurrence, a sum along the text. A model of
    pairs of tokens has none of these. What it costs is shown by a plain
    transformer on the same batches: proven where that gets below the entropy of a token given the
    one before, which no model without a past can; suspected where that is not known.

How to fix
    Check the mask, the width and the state of what mixes positions.

When this verdict is wrong
    When a model of pairs is wanted, and multiplies two tensors of tokens with each other.
"""

from __future__ import annotations

import statistics

from lossleuth.causes.reasoning import first_place, true_losses, unigram
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.model import Leaks
from lossleuth.types.cause import Cause, Limit, missing
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness, refuted, untested

MIN_LENGTH = Limit(3, "fewest positions of a text that has something to be looked back at")
MIN_BELOW = Limit(0.1, "least distance below the entropy of pairs, in nats, that the past is worth")
MIN_REFERENCE_STEPS = Limit(50, "fewest steps of a reference that says something")
LAST = Limit(0.2, "share of the reference's steps, at the end, whose losses are compared")
MAX_UNLIKE = Limit(
    0.05,
    "largest difference between the entropies of what is read and of the targets, as a share: "
    "where pads are read, pairs are others",
)


def judge(evidence: Evidence) -> Judgement:
    """Look how far a token reaches, and what a reference makes of the rest."""
    known = _known(evidence)
    if not known:
        return untested(missing(Leaks, evidence))
    if not _is_blind(evidence):
        reach = max(leaks.reach or 0 for leaks in known)
        if reach:
            return refuted(f"a token moves the logits of a position {reach} later, expected 1 up")
        return untested(
            "a model of pairs of tokens, as far as is seen: 0 operations in it are known to look "
            "back"
        )
    before = known[-1].length - 1
    because = (
        f"Only the token at a position itself reaches its logits, on all of {len(known)} recorded "
        f"steps, and none of the {before} before it."
    )
    if evidence.yardstick is None:
        return untested(f"{because} What the past is worth was not compared with a reference")
    pairs, losses = _pairs(evidence), true_losses(evidence)
    if pairs is not None and losses and losses[-1][1] < pairs - MIN_BELOW:
        return untested(
            f"{because} Yet its loss is {losses[-1][1]:.2f}, below the {pairs:.2f} that a token "
            "tells of the next: it knows something else"
        )
    fault = Judgement(
        Status.SUSPECTED,
        because,
        first_place(place for leaks in known for place in leaks.past_places),
        Wrongness("positions that a token reaches", 0.0, float(before), 0.0),
        remedy="Check the mask, the width and the state of what mixes positions.",
    )
    return _with_harm(evidence, fault)


def _known(evidence: Evidence) -> list[Leaks]:
    found = [leaks for leaks in evidence.all(Leaks) if leaks.reach is not None]
    return [leaks for leaks in found if leaks.length >= MIN_LENGTH]


def _is_blind(evidence: Evidence) -> bool:
    """Whether nothing is looked back at, though something was made for that."""
    known = _known(evidence)
    alone = bool(known) and not any(leaks.reach for leaks in known)
    return alone and any(leaks.mixes for leaks in known)


def _with_harm(evidence: Evidence, fault: Judgement) -> Judgement:
    """Proven where a reference does what no model without a past can do."""
    reached, pairs = _reference(evidence), _pairs(evidence)
    if reached is None or pairs is None or reached > pairs - MIN_BELOW:
        return fault
    because = (
        f"{fault.because} A plain transformer reaches {reached:.2f} on the same batches, where no "
        f"model that sees one token gets below {pairs:.2f}, the entropy of a token given the one "
        "before."
    )
    return Judgement(Status.PROVEN, because, fault.where, fault.wrongness, remedy=fault.remedy)


def _reference(evidence: Evidence) -> float | None:
    """The loss of the reference at its end."""
    yardstick = evidence.yardstick
    if yardstick is None or len(yardstick.losses) < MIN_REFERENCE_STEPS:
        return None
    return statistics.fmean(yardstick.losses[-max(1, int(LAST * len(yardstick.losses))) :])


def _pairs(evidence: Evidence) -> float | None:
    """The entropy of a token given the one before, where what is read is what is predicted."""
    floors, of_targets = evidence.floors, unigram(evidence)
    if floors.bigram is None or floors.unigram is None or of_targets is None:
        return None
    alike = abs(floors.unigram - of_targets) <= MAX_UNLIKE * of_targets
    return floors.bigram if alike else None


CAUSE = Cause(
    "past_ignored",
    Stage.MODEL,
    "a position does not see what is before it",
    judge,
    needs=(Leaks,),
    uses=(TrueLoss,),
    limits=(
        MIN_LENGTH,
        MIN_BELOW,
        MIN_REFERENCE_STEPS,
        LAST,
        MAX_UNLIKE,
    ),
    overlaps=("input_ignored", "dead_network"),
    relies_on=("lookups",),
    is_core=_is_blind,
)
