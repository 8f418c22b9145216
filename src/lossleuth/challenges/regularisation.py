"""Without what keeps a model from fitting the batches that it sees."""

from __future__ import annotations

from lossleuth.types.challenge import Bias, Challenge
from lossleuth.types.change import Change
from lossleuth.types.evidence import Evidence


def _decays(evidence: Evidence) -> bool:
    return any(group.weight_decay for group in evidence.settings.groups)


CHALLENGES = (
    Challenge(Change.of("no_decay"), "without weight decay", Bias.FITS, applies=_decays),
    Challenge(Change.of("no_dropout"), "without dropout", Bias.FITS),
)
