"""Every fault in every layout is blamed on its own cause, and on no other."""

from __future__ import annotations

import pytest
from every_layout import FAULTS, Layout
from loss_layouts import step_of

from lossleuth.catalogue import cause
from lossleuth.probes.run import run_probes
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status

CAUSES = sorted({fault.cause for fault in FAULTS.values() if fault.cause is not None})
CELLS = [(layout, name) for name, fault in FAULTS.items() for layout in fault.layouts]
# So that what a fault does has an effect on the loss.
STEPS = 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "planted"), CELLS, ids=[f"{layout.__name__}-{name}" for layout, name in CELLS]
)
def test_a_fault_is_blamed_on_its_cause_alone(layout: Layout, planted: str) -> None:
    fault = FAULTS[planted]
    step = run_probes(step_of(layout, fault.options, after=STEPS))
    evidence = Evidence(recorded=[step] * 3)
    said = {name: cause(name).judged(evidence).status for name in CAUSES}
    blamed = [name for name, s in said.items() if s in (Status.PROVEN, Status.SUSPECTED)]
    assert blamed == ([] if fault.cause is None else [fault.cause])
