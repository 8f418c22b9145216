"""All probes together."""

from __future__ import annotations

import pytest
from steps import recorded_step

from lossleuth.probes import look
from lossleuth.probes.look import PROBES, look_at
from lossleuth.record.values import encode_json


def test_every_probe_speaks_and_its_numbers_can_be_recorded() -> None:
    found = look_at(recorded_step())
    assert set(found) == {*PROBES, "errored"}
    assert found["errored"] == {}
    assert found["alignment"]["offset"] == 1
    assert found["gradient_truth"][0]["error"] < 1e-5
    _, left_out = encode_json(found)
    assert left_out == []


def test_a_probe_that_fails_is_named_and_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_args: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setitem(look.PROBES, "leaks", fail)
    found = look_at(recorded_step())
    assert found["errored"] == {"leaks": "RuntimeError: ours"}
    assert found["leaks"] is None
    assert found["alignment"]["offset"] == 1
