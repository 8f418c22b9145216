"""The lines of the user's program that made the targets and cut the logits to fit them."""

from __future__ import annotations

from lossleuth.findings.data import TargetLines
from lossleuth.places import is_library
from lossleuth.probes.probe import Probe
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Window

_CHOICES = frozenset(
    (
        *("slice", "narrow", "select", "index", "index_select", "gather", "roll", "cat", "stack"),
        *("constant_pad_nd", "slice_scatter", "copy_", "unfold", "split", "unbind", "flip"),
    )
)


# Operations that put a number in the place of others.
_FILLS = frozenset(
    (
        *("full", "full_like", "fill", "fill_", "masked_fill", "masked_fill_", "where"),
        *("index_put", "index_put_", "index_fill", "index_fill_", "scatter", "scatter_"),
    )
)


def target_lines(window: Window, roles: Roles | None) -> TargetLines | None:
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
    filled = _places([op for op in made if op.name in _FILLS])
    return TargetLines(loss, _choosing(tape, made), _choosing(tape, cut), _places(made), filled)


def _choosing(tape: Tape, operations: list[Operation]) -> tuple[str, ...]:
    """The lines of operations that select or shift elements."""
    return _places([op for op in operations if op.name in _CHOICES and not _takes_all(tape, op)])


def _takes_all(tape: Tape, operation: Operation) -> bool:
    made = operation.outputs[0] if operation.outputs else None
    if operation.name not in ("slice", "narrow") or made is None:
        return False
    return tape.layouts[operation.inputs[0]].shape == tape.layouts[made].shape


def _places(operations: list[Operation]) -> tuple[str, ...]:
    found = (_place(operation) for operation in reversed(operations))
    return tuple(dict.fromkeys(place for place in found if place is not None))[:8]


def _place(operation: Operation) -> str | None:
    place = operation.place
    return None if place is None or is_library(place.file) else str(place)


PROBE = Probe(TargetLines, lambda a: target_lines(a.window, a.roles))
