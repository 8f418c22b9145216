"""The offset of each target from the position that predicts it: the next token is 1."""

from __future__ import annotations

from lossleuth.findings.data import Alignment
from lossleuth.probes.probe import Probe
from lossleuth.tape.roles.alignment import alignment

PROBE = Probe(Alignment, lambda a: alignment(a.window, a.loss_roles))
