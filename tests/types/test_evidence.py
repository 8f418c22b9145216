"""What judges look at."""

from __future__ import annotations

from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence


def test_only_effects_that_are_known_are_answers() -> None:
    known, unknown = Change.of("scale_lr", factor=0.1), Change.of("scale_lr", factor=10)
    effect = Effect(known, 0.5, 0.01, 3, 80, 4.0, 3.5, 5.0)
    assert Evidence(effects={known: effect}).answers([unknown, known]) == [effect]
