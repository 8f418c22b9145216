"""Full precision in place of a narrower type."""

from __future__ import annotations

from dataclasses import replace

from any_finding import finding
from evidence import seen

from lossleuth.challenges.precision import CHALLENGES
from lossleuth.findings.gradient import GradientTruth


def test_only_what_rounds_much_is_tried_in_full_precision() -> None:
    (challenge,) = CHALLENGES
    truth = finding(GradientTruth, 0.0)
    assert challenge.applies(seen(replace(truth, floor=3e-3)))
    assert not challenge.applies(seen(replace(truth, floor=1e-7)))
