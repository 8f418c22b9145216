"""Settings of a distillation."""

from __future__ import annotations

from typing import Any

import pytest

from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.settings import resolve
from lossleuth.types.errors import BadInput


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"temperature": 0.0}, "a value above 0 for temperature, found 0.0"),
        ({"temperature": -2.0}, "a value above 0 for temperature, found -2.0"),
        ({"temperature_end": 0.0}, "a value above 0 for temperature_end"),
        ({"distil_weight": 0.0, "data_weight": 0.0}, "found a sum of 0 at step 1"),
        ({"distil_weight_end": 0.0, "data_weight_end": 0.0}, "found a sum of 0 at step 600 of 600"),
        ({"distil_weight": -1.0}, "a value of at least 0 for distil_weight"),
        ({"compile": True}, "no --compile for a distillation"),
        ({"top_k": 5, "divergence": "reverse_kl"}, "--top-k only with --divergence forward_kl"),
        ({"average": 0.9}, "a value of at most 0.5 for average"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        resolve(DistilSettings, options=options)


def test_weights_and_temperature_have_their_sources() -> None:
    resolved = resolve(DistilSettings, options={"temperature": 3.0, "temperature_end": 1.5})
    assert resolved.sources["temperature"] == "option --temperature"
    assert resolved.sources["distil_weight"] == "default"
    assert resolved.values.curriculum.temperature(599) == 1.5


def test_a_part_without_weight_is_left_out_and_one_that_gets_some_is_not() -> None:
    assert set(DistilSettings().curriculum.parts) == {"distil", "data"}
    assert "hidden" in DistilSettings(hidden_weight_end=0.1).curriculum.parts


def test_the_students_settings_are_the_trainers() -> None:
    own = DistilSettings(width=64, seed=3).of_student("char")
    assert own == TrainSettings(width=64, seed=3)
