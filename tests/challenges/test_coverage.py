"""Everything trained."""

from __future__ import annotations

from dataclasses import replace

from any_finding import finding
from evidence import seen

from lossleuth.challenges.coverage import CHALLENGES
from lossleuth.findings.distillation import Teaching
from lossleuth.findings.update import Coverage
from lossleuth.types.observed import FoundIn, Origins, WeightOrigins

WHOLE = Coverage((), 0.0, (), 0, 8, unused_match_missing=False)
FROZEN = replace(WHOLE, frozen_share=0.4)
FROM_FILE = Origins(weights=WeightOrigins([FoundIn("base.pt", 1.0)]))


def test_what_is_left_untrained_is_trained_where_nothing_says_why() -> None:
    (challenge,) = CHALLENGES
    assert challenge.applies(seen(FROZEN))
    assert not challenge.applies(seen(WHOLE))
    assert not challenge.applies(seen(replace(FROZEN, thin_share=0.9)))
    assert not challenge.applies(seen(FROZEN, origins=FROM_FILE))
    # A teacher is beside the student, and stays as it is.
    assert not challenge.applies(seen(FROZEN, finding(Teaching, 1.0)))
