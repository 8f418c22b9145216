"""Which lines of the user's own code write to the parameters?"""

from __future__ import annotations

from lossleuth.findings.update import UpdateLines
from lossleuth.probes.probe import Probe
from lossleuth.tape.window import Window


def update_lines(window: Window) -> UpdateLines:
    """File and line of each, in an optimizer of the user's or in the loop itself."""
    tape = window.tape
    groups = {tape.groups[number] for number in tape.parameters}
    found = {str(place): None for place in tape.writers}
    for operation in tape.operations:
        # What is written before the first backward pass is initialisation, not an update.
        late = bool(window.backwards) and operation.number >= window.backwards[0].at
        if late and operation.place and groups & {tape.groups[i] for i in operation.written}:
            found.setdefault(str(operation.place))
    return UpdateLines(tuple(found))


PROBE = Probe(UpdateLines, lambda a: update_lines(a.window))
