"""Does what the update did last until the next step?

A step is looked at when the next one begins. By then the weights should be what the update left;
where something has written to them since, part of the update may have been taken back.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from lossleuth.findings.update import Undone
from lossleuth.places import is_library
from lossleuth.probes.probe import Probe
from lossleuth.tape.window import Update, Window


def undone(window: Window) -> Undone | None:
    """Compare weights as they are with those that the update left; None without an update."""
    back = whole = 0.0
    last: dict[int, Update] = {id(update.optimizer): update for update in window.updates}
    for update in last.values():
        for before, after, now in _moved(update):
            move = after - before
            whole += float(move.square().sum())
            back -= float(((now - after) * move).sum())
    if not whole:
        return None
    share = back / whole
    return Undone(share, tuple(_places(window)) if share else ())


def _moved(update: Update) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    rows = zip(update.before, update.after, update.parameters, strict=False)
    for before, after, parameter in rows:
        if after.shape == parameter.shape:
            yield before.double(), after.double(), parameter.detach().double()


def _places(window: Window) -> Iterator[str]:
    """The user's lines that have written to updated weights since."""
    tape = window.tape
    held = {id(p) for update in window.updates for p in update.parameters}
    groups = {tape.groups[number] for number, leaf in tape.leaves.items() if id(leaf) in held}
    since = max(update.at for update in window.updates)
    seen = set()
    for operation in tape.operations[since:]:
        place = operation.place
        writes = any(tape.groups[number] in groups for number in operation.written)
        if writes and place is not None and not is_library(place.file) and place not in seen:
            seen.add(place)
            yield str(place)


PROBE = Probe(Undone, lambda a: undone(a.window))
