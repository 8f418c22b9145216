"""The hyper-parameters."""

from __future__ import annotations

from typing import Any

import pytest

from lossleuth.reference.train.settings import TrainSettings, as_it_was
from lossleuth.settings import rules
from lossleuth.types.errors import BadInput


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"width": 10, "heads": 3}, "a width that the heads divide, found width 10 for 3 heads"),
        ({"width": 9, "heads": 3}, "an even width per head for rotary positions, found 3"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(BadInput, match=expected):
        TrainSettings(**changes)


def test_every_default_obeys_its_own_rule() -> None:
    defaults = TrainSettings()
    broken = {
        name: rule.broken_by(getattr(defaults, name)) for name, rule in rules(TrainSettings).items()
    }
    assert {name: why for name, why in broken.items() if why} == {}


def test_the_stride_is_the_context_unless_given() -> None:
    assert TrainSettings(context=64).window_stride == 64
    assert TrainSettings(context=64, stride=8).window_stride == 8


def test_what_a_run_has_saved_is_not_replaced_by_what_was_done_before() -> None:
    assert as_it_was({"loss_kernel": "auto"})["loss_kernel"] == "auto"
    assert as_it_was({})["loss_kernel"] == "torch"
