"""Does the run learn at all? Without a cause, this tells healthy from cannot tell."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from lossleuth.causes.turning import turn
from lossleuth.findings.data import Alignment
from lossleuth.findings.loss import TrueLoss
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence

OVERFIT = Change.of("freeze_batch")
# A model that knows more than how frequent tokens are is below their entropy by this much.
BELOW_UNIGRAM = 0.05
# One batch, seen again and again, is learnt if its loss falls by this share.
LEARNT = 0.3
# Steps after which something of the text should be known, where the token before tells so much;
# what share of that is next to nothing.
LONG, TELLING, LITTLE = 100, 0.3, 0.25
# A loss that needs so many runs more, at its last pace, to know more than next to nothing, is flat.
RUNS = 4
# How alike frequencies are in what is read and in what is to be predicted, where both are one text.
ALIKE = 0.05
# Share of targets that an offset explains where they are of the text that is read.
OF_THE_TEXT = 0.35

# Findings that are looked at here.
READS = (Alignment, TrueLoss)


@dataclass(frozen=True)
class Learning:
    """Whether the true loss falls, and the numbers behind it."""

    learns: bool | None
    sentence: str


def learning(evidence: Evidence) -> Learning:
    """Judge the run as a whole, from recorded steps and, if it was tried, from one batch alone."""
    losses = _losses(evidence)
    if has_crashed(evidence):
        # What came after is not known, however well it went until then.
        error, steps = evidence.ending.error, len(evidence.steps)
        return Learning(None, f"after {steps} steps the script itself ended with {error}")
    if len(losses) < 2:
        return Learning(None, "the loss of too few steps is known")
    if not all(math.isfinite(x) for x in losses):
        return Learning(learns=False, sentence="the loss does not stay finite")
    turned = turn(evidence)
    if turned is not None and turned.is_sure:
        return Learning(learns=False, sentence=turned.sentence)
    start, end = losses[0], statistics.fmean(losses[-max(1, len(losses) // 5) :])
    of_targets = next((s.unigram for s in reversed(evidence.steps) if s.unigram), None)
    # Where targets are not seen, what is read has to do.
    unigram = of_targets if of_targets is not None else evidence.floors.unigram
    sentence = f"loss {start:.3f} → {end:.3f}"
    if unigram is not None:
        sentence += f"; a unigram model scores {unigram:.3f}"
    noise = statistics.pstdev(losses[-max(2, len(losses) // 5) :])
    falls = end < start - max(0.02, 2 * noise / math.sqrt(max(1, len(losses) // 5)))
    parked = _unlearnt_pairs(evidence, losses, of_targets)
    beyond = unigram is None or end < unigram - BELOW_UNIGRAM
    if parked is None and falls and beyond:
        return Learning(learns=True, sentence=sentence)
    if parked is None and not beyond and len(losses) >= LONG:
        parked = _unrelated(evidence)
    sentence += parked or ""
    overfit = evidence.effects.get(OVERFIT)
    if overfit is not None:
        left = overfit.with_change / overfit.start if overfit.start else math.nan
        sentence += f"; overfitting one batch {overfit.start:.3f} → {overfit.with_change:.3f}"
        # By heart it may learn, and next to nothing from the text: what is wrong has no name.
        return Learning(learns=parked is None and left < 1 - LEARNT, sentence=sentence)
    if unigram is not None and start < unigram - BELOW_UNIGRAM and end < start + 2 * noise:
        return Learning(learns=True, sentence=f"{sentence}: it starts from a trained model")
    return Learning(learns=False, sentence=sentence)


def has_crashed(evidence: Evidence) -> bool:
    """Whether the script ended with an exception of its own.

    >>> from lossleuth.types.observed import Ending
    >>> has_crashed(Evidence(ending=Ending(how="exception", error="ValueError: 7")))
    True
    """
    return evidence.ending.how == "exception"


def _unlearnt_pairs(
    evidence: Evidence, losses: list[float], of_targets: float | None
) -> str | None:
    """That a long run at its full rate stays far above what pairs of tokens allow, if it does."""
    unigram, pairs = evidence.floors.unigram, evidence.floors.bigram
    rates = evidence.learning_rates
    if unigram is None or pairs is None or min(len(losses), len(rates)) < LONG:
        return None
    if of_targets is not None and abs(unigram - of_targets) > ALIKE * of_targets:
        # What is read holds more than what is to be predicted, such as padding.
        return None
    quarter = len(losses) // 4
    last = statistics.fmean(losses[-quarter:])
    missing = last - (unigram - LITTLE * (unigram - pairs))
    if unigram - pairs < TELLING or missing < 0 or rates[len(rates) // 2] < max(rates) / 2:
        # Nothing to be learnt, more than a little learnt, or still warming up.
        return None
    noise = statistics.pstdev(losses[-quarter:]) / math.sqrt(quarter)
    pace = statistics.fmean(losses[-2 * quarter : -quarter]) - last
    if pace > 2 * noise and 4 * RUNS * pace > missing:
        return None
    return f", the token before would give {pairs:.3f}, and it falls no more"


def _unrelated(evidence: Evidence) -> str | None:
    """That targets are not of the text that is read, if so."""
    known = [alignment.shares for alignment in evidence.all(Alignment)]
    best = max((share for shares in known for share in shares.values()), default=1.0)
    if best > OF_THE_TEXT:
        return None
    return f", and no offset explains more than {best:.0%} of the targets"


def _losses(evidence: Evidence) -> list[float]:
    known = [true.loss for true in evidence.all(TrueLoss) if true.loss is not None]
    series = evidence.losses
    # The differentiated loss has more points; it counts where it is the true one.
    if len(known) >= 2 and series and abs(series[0] - known[0]) > 0.2 * abs(known[0]):
        return known
    return series or known
