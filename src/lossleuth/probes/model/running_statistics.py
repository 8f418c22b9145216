"""Statistics of batches that a program keeps for later, as batch normalisation does.

Such a program means its rows to be normalised together while it trains; alone, a text is normalised
by what was kept. So these are held as they were while tokens are changed: what moves then is a
leak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lossleuth.tape.replay.replay import Each, Replay
from lossleuth.tape.tape import Operation, Ref, Tape

Inputs = dict[int, Callable[[int, Tensor], Tensor]]
# Where an operation of batch normalisation has the running mean among its arguments, and the
# statistics of the batch among its results.
RUNNING_MEAN, BATCH_MEAN, BATCH_SCALE = 3, 1, 2


@dataclass(frozen=True)
class RunningStatistics:
    """Tensors on the way to the logits that are kept for later, with their values."""

    values: dict[int, Tensor]
    # Operations that normalise as a whole.
    norms: dict[int, Operation]

    def held(self) -> tuple[Inputs, Each]:
        """What a replay is given so that these stay as they were."""
        inputs: Inputs = {number: _always(value) for number, value in self.values.items()}
        normalised: dict[int, Tensor] = {}
        for operation in self.norms.values():
            number = operation.outputs[0]
            if number is not None:
                inputs[number] = _given_there(normalised, number)

        def each(operation: Operation, args: tuple[Any, ...], _: Any, __: Any) -> None:
            made = operation.outputs[0] if operation.number in self.norms else None
            if made is not None:
                normalised[made] = self._normalise(operation, args)

        return inputs, each

    def _normalise(self, operation: Operation, args: tuple[Any, ...]) -> Tensor:
        """What the operation gives if its statistics are those of the recorded batch."""
        given, weight, bias = args[:3]
        mean, scale = (self.values[n] for n in _statistics_of(operation))
        # Features are the second axis.
        shape = (1, -1, *[1] * (given.dim() - 2))
        found = (given - mean.reshape(shape)) * scale.reshape(shape)
        found = found if weight is None else found * weight.reshape(shape)
        made: Tensor = found if bias is None else found + bias.reshape(shape)
        return made


def running_statistics(tape: Tape, logits: Sequence[int], before: int) -> RunningStatistics | None:
    """What is kept of the values on the way to the logits; None if nothing is."""
    needed = tape.needed_for(logits, before)
    norms = {operation.number: operation for operation in needed if _keeps(operation)}
    numbers = {n for operation in norms.values() for n in _statistics_of(operation)}
    numbers |= _mixed_into_kept(tape, needed)
    if not numbers:
        return None
    replay = Replay(tape, gradients=False)
    values = replay.run(list(logits), before=before, kept=numbers)
    known = {number: values[number].detach().clone() for number in numbers if number in values}
    norms = {n: op for n, op in norms.items() if all(i in known for i in _statistics_of(op))}
    return RunningStatistics(known, norms) if known else None


def _always(value: Tensor) -> Callable[[int, Tensor], Tensor]:
    # A copy: an operation may write to what it is given.
    return lambda _, there: value.to(there.dtype, copy=True).reshape(there.shape)


def _given_there(normalised: Mapping[int, Tensor], number: int) -> Callable[[int, Tensor], Tensor]:
    return lambda _, there: normalised.get(number, there)


def _mixed_into_kept(tape: Tape, needed: Sequence[Operation]) -> set[int]:
    """Tensors on the way that are mixed with something of their size that was there before.

    It is not trained, and neither it nor the mixture is on the way itself.
    """
    positions = {operation.number for operation in needed}
    # Under whatever number: what is updated goes by another one afterwards.
    parameters = {id(tensor) for tensor in tape.parameters.values()}
    # What was there before, and what is made of that alone, element by element: a frozen model's
    # scores were not there.
    old = {
        number
        for number, leaf in tape.leaves.items()
        if id(leaf) not in parameters and tape.layouts[number].dtype.is_floating_point
    }
    old -= {number for operation in needed for number in operation.inputs}
    # Which tensor on the way each of the others is computed from, if it is one alone.
    source = {n: n for operation in needed for n in operation.outputs if n is not None}
    found: set[int] = set()
    for operation in tape.operations:
        if operation.number in positions:
            continue
        inputs = set(operation.inputs)
        made = {n for n in (*operation.outputs, *operation.written) if n is not None}
        sizes = {_size(tape, number) for number in made}
        there = {number for number in inputs & old if _size(tape, number) in sizes}
        sources = {source[number] for number in inputs - old if number in source}
        mixed = {number for number in sources if there and _size(tape, number) in sizes}
        found |= mixed
        if mixed or (there and inputs <= old):
            old |= made
        elif len(sources) == 1 and not inputs & old:
            source |= dict.fromkeys(made, *sources)
    return found


def _keeps(operation: Operation) -> bool:
    """Whether this normalises a batch, and keeps its statistics."""
    arguments = operation.args
    return (
        "batch_norm" in operation.name
        and len(operation.outputs) > BATCH_SCALE
        and len(arguments) > RUNNING_MEAN
        and isinstance(arguments[RUNNING_MEAN], Ref)
    )


def _statistics_of(operation: Operation) -> list[int]:
    return [
        n for n in (operation.outputs[BATCH_MEAN], operation.outputs[BATCH_SCALE]) if n is not None
    ]


def _size(tape: Tape, number: int) -> int:
    return math.prod(tape.layouts[number].shape)
