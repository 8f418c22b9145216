"""All probes together."""

from __future__ import annotations

from steps import recorded_step

from lossleuth.probes.look import look_at
from lossleuth.record.values import encode_json


def test_every_probe_speaks_and_its_numbers_can_be_recorded() -> None:
    found = look_at(recorded_step())
    measured = {"gradient_truth", "functions", "updates", "leaks", "alignment", "cuts"}
    measured |= {"reported", "hooks", "stale_share", "precision", "first_non_finite"}
    measured |= {"hand_gradients", "handling"}
    assert set(found) == measured
    assert found["alignment"]["offset"] == 1
    _, left_out = encode_json(found)
    assert left_out == []
