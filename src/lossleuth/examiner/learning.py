"""Does the run learn at all? Without a cause, this tells healthy from cannot tell."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

from lossleuth.types import Change, Evidence

OVERFIT = Change.of("freeze_batch")
# A model that knows more than how frequent tokens are is below their entropy by this much.
BELOW_UNIGRAM = 0.05
# One batch, seen again and again, is learnt if its loss falls by this share.
LEARNT = 0.3
# Steps after which something of the text should be known, where the token before tells so much.
LONG, TELLING = 100, 0.3


@dataclass(frozen=True)
class Learning:
    """Whether the true loss falls, and the numbers behind it."""

    learns: bool | None
    sentence: str


def learning(evidence: Evidence) -> Learning:
    """Judge the run as a whole, from recorded steps and, if it was tried, from one batch alone."""
    losses = _losses(evidence)
    if len(losses) < 2:
        return Learning(None, "the loss of too few steps is known")
    if not all(math.isfinite(x) for x in losses):
        return Learning(learns=False, sentence="the loss does not stay finite")
    start, end = losses[0], statistics.fmean(losses[-max(1, len(losses) // 5) :])
    unigram = next((s["unigram"] for s in reversed(evidence.steps) if s.get("unigram")), None)
    told = f"the loss goes from {start:.3f} to {end:.3f}"
    if unigram is not None:
        told += f"; knowing only how frequent tokens are gives {unigram:.3f}"
    noise = statistics.pstdev(losses[-max(2, len(losses) // 5) :])
    falls = end < start - max(0.02, 2 * noise / math.sqrt(max(1, len(losses) // 5)))
    if falls and (unigram is None or end < unigram - BELOW_UNIGRAM):
        return Learning(learns=True, sentence=told)
    overfit = evidence.effects.get(OVERFIT)
    if overfit is not None:
        left = overfit.with_change / overfit.start if overfit.start else math.nan
        told += f"; one batch alone goes from {overfit.start:.3f} to {overfit.with_change:.3f}"
        pairs = _unlearnt_pairs(evidence, end)
        if pairs is not None:
            # By heart it learns, and from the text nothing: something is wrong that has no name.
            return Learning(
                learns=False, sentence=f"{told}; pairs of tokens would give {pairs:.3f}"
            )
        return Learning(learns=left < 1 - LEARNT, sentence=told)
    if unigram is not None and start < unigram - BELOW_UNIGRAM and end < start + 2 * noise:
        return Learning(learns=True, sentence=f"{told}: it starts from a trained model")
    return Learning(learns=False, sentence=told)


def _unlearnt_pairs(evidence: Evidence, end: float) -> float | None:
    """What pairs of tokens allow, where a long run at its full rate has learnt nothing of them."""
    unigram, pairs = evidence.floors.get("unigram"), evidence.floors.get("bigram")
    rates = [float(rate) for rate in evidence.series("lr")]
    if unigram is None or pairs is None or len(evidence.steps) < LONG or not rates:
        return None
    warming = rates[len(rates) // 2] < max(rates) / 2
    if warming or unigram - pairs < TELLING or end < unigram - BELOW_UNIGRAM:
        return None
    return pairs


def _losses(evidence: Evidence) -> list[float]:
    true = [_true(window) for window in evidence.windows]
    known = [x for x in true if x is not None]
    series = [float(x) for x in evidence.series("loss")]
    # The differentiated loss has more points; it counts where it is the true one.
    if len(known) >= 2 and series and abs(series[0] - known[0]) > 0.2 * abs(known[0]):
        return known
    return series or known


def _true(window: Any) -> float | None:
    return (window.get("true_loss") or {}).get("loss")
