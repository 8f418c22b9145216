"""The probe of the targets' offset; how it is found is tested with the roles."""

from __future__ import annotations

from steps import recorded_step

from lossleuth.findings.data import Alignment
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.data.alignment import PROBE


def test_a_sound_step_predicts_the_next_token() -> None:
    with Analysis(recorded_step()) as analysis:
        found = PROBE.run(analysis)
    assert isinstance(found, Alignment)
    assert found.offset == 1 and found.untested is None
