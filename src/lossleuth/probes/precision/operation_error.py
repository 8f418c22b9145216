"""The rounding error of each operation of a step.

Each operation is done in float64 and once more in its recorded types from the same inputs: its own
rounding error, apart from what it inherits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from lossleuth.findings.precision import OperationError
from lossleuth.probes.probe import Probe
from lossleuth.tape.op_schemas import EMPTY, tensors_in
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.tape import Operation, Tape
from lossleuth.tape.window import Backward, Window

vector_norm = torch.linalg.vector_norm
# Operations that are reported, the worst ones. Picked by hand.
MAX_OPERATIONS = 10


def operation_errors(window: Window, run: Backward) -> list[OperationError]:
    """The operations with the largest rounding errors, the worst first."""
    found: list[OperationError] = []

    def each(
        operation: Operation, _args: tuple[Any, ...], result: Any, recorded: Callable[[], Any]
    ) -> None:
        traits = operation.traits
        skipped = traits.is_view or traits.is_random or bool(operation.written)
        skipped = skipped or operation.name in EMPTY
        # A change of type has no error of its own where it widens.
        skipped = skipped or (operation.name == "_to_copy" and _widens(window.tape, operation))
        wide = [t for t in tensors_in(result) if t.dtype == torch.float64]
        if skipped or not wide or operation.outputs[0] is None:
            return
        low = next(iter(tensors_in(recorded())), None)
        if low is None or low.shape != wide[0].shape:
            return
        size = float(vector_norm(wide[0]))
        error = float(vector_norm(low.double() - wide[0])) / size if size else 0.0
        if math.isfinite(error):
            dtype = str(window.tape.layouts[operation.outputs[0]].dtype).removeprefix("torch.")
            found.append(OperationError(*where(operation), dtype, error))

    try:
        roots = [root for root in run.roots if root is not None]
        Replay(window.tape, gradients=False).run(roots, before=run.at, each=each)
    except CannotReplay:
        pass  # what was measured up to there still holds
    return sorted(found, key=lambda o: -o.error)[:MAX_OPERATIONS]


def where(operation: Operation) -> tuple[str, str | None, int | None, str | None]:
    """Name, file, line and module of an operation."""
    place = operation.place
    file, line = (None, None) if place is None else (place.file, place.line)
    return operation.name, file, line, operation.module


def _widens(tape: Tape, operation: Operation) -> bool:
    made = operation.outputs[0]
    if made is None or not operation.inputs:
        return False
    return tape.layouts[made].dtype.itemsize > tape.layouts[operation.inputs[0]].dtype.itemsize


PROBE = Probe(OperationError, lambda a: operation_errors(a.window, a.roles.run) if a.roles else ())
