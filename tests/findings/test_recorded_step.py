"""All that was found on one recorded step."""

from __future__ import annotations

import pytest
from any_finding import every_kind, finding

from lossleuth.findings.data import Alignment, Padding
from lossleuth.findings.recorded_step import OtherSchema, RecordedStep


def test_it_comes_back_as_it_was_stored() -> None:
    step = RecordedStep(7, every_kind(0.5), {"leaks": "KeyError"}, (10, 20), "evaluation")
    assert RecordedStep.restored(step.plain(), "evaluation") == step


def test_another_schema_is_refused() -> None:
    plain = RecordedStep(7).plain()
    for other in ({**plain, "schema": 99}, {"step": 1, "alignment": {}}):
        with pytest.raises(OtherSchema):
            RecordedStep.restored(other)


def test_the_first_of_a_kind_is_the_first_that_could_be_measured() -> None:
    untested = Alignment(None, {}, 0, 0, untested="no targets")
    step = RecordedStep(1, [untested, finding(Alignment, 0.5), finding(Alignment, 0.25)])
    first = step.first(Alignment)
    assert first is not None and first.shares == {8: 0.5}
    assert step.reasons(Alignment) == ["no targets"]
    assert step.first(Padding) is None
    assert step.only((Padding,)).findings == []
