"""Leaks of recorded steps: is one there, and what is it worth?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from lossleuth.causes.reasoning import first_place, true_losses, unigram
from lossleuth.findings.data import Alignment
from lossleuth.findings.model import Leaks
from lossleuth.types.cause import Limit
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Status, Wrongness, refuted

MIN_HARM = Limit(
    0.01,
    "least nats by which a position does worse without what leaks to it",
    "picked by hand, after two sound public programs with leaks of no use at all",
)
MIN_LEARNT = Limit(0.2, "nats that a run has to have learnt to make use of a leak")
MIN_BELOW_UNIGRAM = Limit(
    0.1, "nats below the entropy of single tokens that a run has to have come to make use of a leak"
)


MIN_SEEN = Limit(
    0.25, "share of tokens that move the position before them, beyond which a model looks ahead"
)

MIN_MOVE = Limit(
    2.0**-24,
    "least move of logits, as a share of their spread, that is looked at without harm",
    "half a last digit of float32: less is rounded away before any update could make use of it",
)


class Leak(NamedTuple):
    """How far logits moved that should not move, and how far rounding alone may move them."""

    move: float
    floor: float
    # Where the leak comes in, as file:line.
    places: tuple[str, ...]
    # Which token the targets of that step are, counted from the position that predicts them.
    offset: int | None = None
    # Nats that are lost without what leaks.
    harm: float | None = None
    # Nats by which predictions are better if what leaks is averaged away.
    noise: float | None = None
    # Whether it comes in through a tensor without positions.
    by_code: bool = False
    # The share of tokens that move the nearest position before them.
    share: float | None = None

    @property
    def is_beside_an_offset(self) -> bool:
        """Whether few positions leak, where targets are not the next token.

        It is then not known which positions are to be asked at all: a prefix may see itself.
        """
        return self.offset not in (None, 1) and self.share is not None and self.share <= MIN_SEEN

    @property
    def is_there(self) -> bool:
        """Whether it is more than rounding, that of the replay and that of the program."""
        is_harmful = self.harm is not None and self.harm >= MIN_HARM
        return self.move > self.floor and (self.move > MIN_MOVE or is_harmful)


def future_leaks(evidence: Evidence) -> list[Leak]:
    """How far a later token moves earlier logits, for each recorded step that shows it."""
    found = []
    for step in evidence.recorded:
        leaks, alignment = step.first(Leaks), step.first(Alignment)
        if leaks is not None and leaks.future is not None and math.isfinite(leaks.future):
            offset = None if alignment is None else alignment.offset
            if leaks.offsets is not None:
                offset = next(iter(leaks.offsets), None)
            harm = leaks.future_harm
            found.append(
                Leak(
                    leaks.future,
                    leaks.floor,
                    leaks.places,
                    offset,
                    harm,
                    by_code=leaks.by_code,
                    share=leaks.future_share,
                )
            )
    return found


def row_leaks(evidence: Evidence) -> list[Leak]:
    """How far some texts move the logits of others, for each recorded step that shows it."""
    return [
        Leak(
            leaks.batch,
            leaks.floor,
            leaks.batch_places,
            harm=leaks.batch_harm,
            noise=leaks.batch_noise,
        )
        for leaks in evidence.all(Leaks)
        if leaks.batch is not None and math.isfinite(leaks.batch)
    ]


def leaks_always(leaks: Sequence[Leak]) -> bool:
    """Whether logits move by more than rounding on every recorded step."""
    return bool(leaks) and all(leak.is_there for leak in leaks)


def asks_for_next(leaks: Sequence[Leak]) -> bool:
    """Whether targets are later tokens on any of these steps."""
    return any(leak.offset is not None and leak.offset >= 1 for leak in leaks)


def judge_leaks(
    evidence: Evidence, leaks: Sequence[Leak], what: str, expected: str, remedy: str
) -> Judgement:
    """Proven by its harm; benign if the run has learnt and it does none; else suspected."""
    there = [leak for leak in leaks if leak.is_there]
    if not there:
        move = max(leak.move for leak in leaks)
        return refuted(f"{what} by {move:.1e}, expected 0")
    harms = [leak.harm for leak in there if leak.harm is not None]
    harm = max(harms, default=None)
    noise = max((leak.noise for leak in there if leak.noise is not None), default=None)
    is_noise = noise is not None and noise >= MIN_HARM and (harm is None or noise > harm)
    is_harmful = is_noise or (harm is not None and harm >= MIN_HARM)
    if not is_harmful and len(there) < len(leaks):
        return refuted(f"{what} on {len(there)} of {len(leaks)} recorded steps, and does no harm")
    steps = "all" if len(there) == len(leaks) else f"{len(there)}"
    because = (
        f"{what[0].upper()}{what[1:]} by {min(leak.move for leak in there):.2g} of their standard "
        f"deviation on {steps} of {len(leaks)} recorded steps; {expected}."
    )
    if is_noise:
        because += (
            f" It is noise: averaged over other neighbours, predictions are {noise:.3g} nats "
            "better."
        )
    elif harm is not None:
        because += f" Without it, a position loses {harm:.3g} nats."
    status = Status.PROVEN
    if not is_harmful:
        status = Status.BENIGN if harm is not None and has_learnt(evidence) else Status.SUSPECTED
    return Judgement(
        status,
        because,
        first_place(place for leak in there for place in leak.places),
        Wrongness("move of logits", min(leak.move for leak in there), 0.0, there[-1].floor),
        remedy=remedy,
    )


def has_learnt(evidence: Evidence) -> bool:
    """Whether the true loss has fallen by so much that a leak would have been made use of.

    Frequencies alone are learnt without looking at any other token.
    """
    losses = [loss for _, loss in true_losses(evidence)]
    if len(losses) < 2 or losses[0] - min(losses) < MIN_LEARNT:
        return False
    floor = unigram(evidence)
    return floor is None or min(losses) <= floor - MIN_BELOW_UNIGRAM
