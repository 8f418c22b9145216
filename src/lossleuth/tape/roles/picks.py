"""Operations of a loss that pick scores by whole numbers: its targets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lossleuth.tape.tape import Operation, Ref, Tape

PICKS = frozenset(("nll_loss_forward", "nll_loss2d_forward", "gather"))


@dataclass(frozen=True)
class Pick:
    """An operation that takes scores by targets."""

    operation: Operation
    source: int
    targets: int
    ignored: int | None
    size: int
    classes: int

    def is_turn_of(self, other: Pick) -> bool:
        """Whether both are made by the same line with as many classes, as in a loop."""
        mine, its = self.operation, other.operation
        return (mine.name, mine.place, self.classes) == (its.name, its.place, other.classes)


def picks_of(tape: Tape, operations: list[Operation]) -> list[Pick]:
    """Every operation that picks scores by whole numbers."""
    found: list[Pick] = []
    autograd = uses_autograd(tape, operations)
    for operation in operations:
        if operation.name not in PICKS or len(operation.inputs) < 2:
            continue
        source, index = operation.args[0], operation.args[2 if operation.name == "gather" else 1]
        if type(source) is not Ref or type(index) is not Ref:
            continue
        whole = not tape.layouts[index.id].dtype.is_floating_point
        classes = max(tape.layouts[source.id].shape, default=0)
        needs_grad = (
            operation.function is not None
            or operation.requires_grad[operation.inputs.index(source.id)]
        )
        # Where nothing at all requires a gradient, gradients are made by hand.
        needs_grad = needs_grad or not autograd
        if not whole or classes < 2 or not needs_grad:
            continue
        ignored = operation.args[4] if operation.name.startswith("nll") else None
        size = math.prod(tape.layouts[source.id].shape)
        found.append(Pick(operation, source.id, index.id, ignored, size, classes))
    return found


def uses_autograd(tape: Tape, operations: list[Operation]) -> bool:
    """Whether anything other than a parameter itself requires a gradient."""
    return any(
        needs_grad and tape.groups[i] not in tape.leaves
        for operation in operations
        for i, needs_grad in zip(operation.inputs, operation.requires_grad, strict=True)
    )
