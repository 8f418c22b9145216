"""The lines of the user's program that made the targets and cut the logits to fit them."""

from __future__ import annotations

from dataclasses import dataclass

from lossleuth.places import is_library
from lossleuth.tape.roles import Roles
from lossleuth.tape.tape import Operation
from lossleuth.tape.window import Window


@dataclass(frozen=True)
class TargetPlaces:
    """Places as file:line, the last first; `loss` is where targets are compared with logits."""

    loss: str | None
    targets: tuple[str, ...]
    logits: tuple[str, ...]


def target_places(window: Window, roles: Roles | None) -> TargetPlaces | None:
    """Walk back from the targets, and from what they are compared with."""
    if roles is None or roles.targets is None or roles.scores_at is None:
        return None
    tape = window.tape
    loss = _place(tape.operations[roles.scores_at])
    made = tape.needed_for([roles.targets], roles.run.at)
    since = 0
    if roles.logits is not None:
        maker = tape.makers().get(roles.logits)
        since = 0 if maker is None else maker.number + 1
    assert roles.scores is not None
    cut = tape.needed_for([roles.scores], roles.scores_at, since)
    return TargetPlaces(loss, _places(made), _places(cut))


def _places(operations: list[Operation]) -> tuple[str, ...]:
    found = (_place(operation) for operation in reversed(operations))
    return tuple(dict.fromkeys(place for place in found if place is not None))[:8]


def _place(operation: Operation) -> str | None:
    place = operation.place
    return None if place is None or is_library(place.file) else str(place)
