"""Other learning rates."""

from __future__ import annotations

import pytest
from evidence import steps

from lossleuth.challenges.rate import CHALLENGES
from lossleuth.types.challenge import Bias
from lossleuth.types.evidence import Evidence


@pytest.mark.parametrize(
    ("rates", "too_low"),
    [([0.1] * 4, True), ([0.1, 0.2, 0.2, 0.1], True), ([0.1, 0.2, 0.3, 0.4], False)],
)
def test_nothing_is_too_low_while_a_rate_rises(rates: list[float], too_low: bool) -> None:
    run = Evidence(steps=steps(4, lr=rates))
    higher = {dict(c.change.options)["factor"] for c in CHALLENGES if c.applies(run)}
    assert higher == ({0.1, 0.3, 3.0, 10.0} if too_low else {0.1, 0.3})


def test_only_a_higher_rate_has_an_excuse() -> None:
    for challenge in CHALLENGES:
        is_higher = float(dict(challenge.change.options)["factor"]) > 1
        # Ten times the rate is no matter of tuning any more.
        assert (challenge.bias is not Bias.NONE) is is_higher
