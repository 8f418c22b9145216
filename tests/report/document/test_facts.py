"""What a report shows."""

from __future__ import annotations

import numpy as np
from made_runs import verdict

from lossleuth.report.document.facts import Facts


def test_a_scalar_that_was_not_recorded_is_nan_at_every_step() -> None:
    facts = Facts(verdict(), steps=np.arange(2.0), series={"loss": np.array([3.0, 2.0])})
    assert facts.of("loss").tolist() == [3.0, 2.0]
    assert np.isnan(facts.of("lr")).tolist() == [True, True]
