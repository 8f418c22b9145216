"""Every probe's name is that of its file and of what it finds."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from lossleuth.probes.probe import Probe
from lossleuth.probes.run import probes


@pytest.mark.parametrize("probe", probes(), ids=lambda p: p.id)
def test_its_name_is_that_of_its_file(probe: Probe) -> None:
    module = inspect.getmodule(probe.run)
    assert module is not None and module.__file__ is not None
    assert Path(module.__file__).stem == probe.id
