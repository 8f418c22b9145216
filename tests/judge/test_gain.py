"""What a challenge gained."""

from __future__ import annotations

import json
import math

import pytest

from lossleuth.judge.gain import Gain
from lossleuth.record import strict_json
from lossleuth.types.challenge import Bias
from lossleuth.types.change import Change, Effect

CHANGE = Change.of("scale_lr", factor=10.0)


def gain(nats: float, *, counts: bool = True) -> Gain:
    effect = Effect(CHANGE, nats, 0.01, 3, 80, 3.0, 3.0 - nats, 4.0)
    return Gain("at ten times the learning rate", Bias.EARLY, effect, counts)


def test_what_does_not_count_is_told_with_the_reason() -> None:
    told = "it does better at ten times the learning rate, by 0.40 ± 0.01 nats in 80 steps"
    assert gain(0.4).sentence == told
    assert gain(0.4, counts=False).sentence.startswith(f"{told}; such a gain says little: ")


@pytest.mark.parametrize("nats", [0.4, math.inf])
def test_it_comes_back_from_strict_json_as_it_was(nats: float) -> None:
    stored = json.loads(strict_json.dumps(gain(nats).as_json()))
    assert Gain.from_json(stored) == gain(nats)
