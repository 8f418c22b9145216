"""The probe of the targets' offset; how it is found is tested with the roles."""

from __future__ import annotations

import pytest
from loss_layouts import Options, chunked, step_of, two_heads
from steps import recorded_step

from lossleuth.findings.data import Alignment
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.data.alignment import PROBE


def test_a_sound_step_predicts_the_next_token() -> None:
    with Analysis(recorded_step()) as analysis:
        found = PROBE.run(analysis)
    assert isinstance(found, Alignment)
    assert found.offset == 1 and found.untested is None


@pytest.mark.parametrize(("offset", "heads"), [(1, (1, 2)), (0, (0, 1))])
def test_each_head_has_an_offset(offset: int, heads: tuple[int, ...]) -> None:
    with Analysis(step_of(two_heads, Options(offset=offset))) as analysis:
        found = PROBE.run(analysis)
    assert isinstance(found, Alignment)
    assert found.heads == heads and found.offset == 1


def test_chunks_of_one_loss_are_no_heads() -> None:
    with Analysis(step_of(chunked)) as analysis:
        found = PROBE.run(analysis)
    assert isinstance(found, Alignment) and found.heads == ()
