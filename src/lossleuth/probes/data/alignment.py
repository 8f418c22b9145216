"""The offset of each target from the position that predicts it: the next token is 1."""

from __future__ import annotations

from dataclasses import replace

from lossleuth.findings.data import Alignment
from lossleuth.probes.analysis import Analysis
from lossleuth.probes.probe import Probe
from lossleuth.tape.roles.alignment import alignment
from lossleuth.tape.roles.loss_roles import heads


def offsets(analysis: Analysis) -> Alignment:
    """Of the loss that matters most, and of each head where there are several."""
    window = analysis.window
    found = alignment(window, analysis.loss_roles)
    several = heads(window)
    if found.untested is not None or len(several) < 2:
        return found
    return replace(found, heads=tuple(alignment(window, one).offset for one in several))


PROBE = Probe(Alignment, offsets)
