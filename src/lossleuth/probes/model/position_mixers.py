"""Was a model made to look back, or is it one of pairs of tokens by design?

Attention, convolutions, recurrences and sums along a text carry something from one position to
another, if they work. Where nothing gets there, they tell a fault from a model without them.
"""

from __future__ import annotations

from collections.abc import Sequence

from lossleuth.probes.model.changed_tokens import ChangedTokens
from lossleuth.tape.roles.features import PRODUCTS
from lossleuth.tape.tape import Operation, Tape

# Parts of the names of operations that have a text's length, or a state, in them.
MIXERS = (
    *("attention", "conv", "lstm", "gru", "rnn", "fft"),
    *("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "roll"),
)
# Fewest products with a state that no token reaches: a loop over positions, not one constant.
MIN_TURNS = 3


def mixes_positions(step: ChangedTokens) -> bool:
    """Whether an operation between the tokens and the logits was made to mix positions."""
    tape, roles = step.window.tape, step.roles
    wanted = [part.logits for part in roles.parts if part.logits is not None]
    if not wanted and roles.features is not None:
        wanted = [roles.features.number]
    operations = tape.needed_for(wanted, roles.run.at)
    fed = _fed_by_tokens(operations, roles.tokens_used)
    if any(_is_mixer(tape, operation, fed, step.tokens.shape[1]) for operation in operations):
        return True
    return len(_with_constant_state(tape, operations, fed, step.tokens.shape[1])) >= MIN_TURNS


def _fed_by_tokens(operations: Sequence[Operation], lookups: frozenset[int]) -> set[int]:
    """Tensors that are made of tokens."""
    fed: set[int] = set()
    for operation in operations:
        if operation.number in lookups or not fed.isdisjoint(operation.inputs):
            fed.update(number for number in operation.outputs if number is not None)
    return fed


def _is_mixer(tape: Tape, operation: Operation, fed: set[int], length: int) -> bool:
    """By its name, as a product or a sum along the text, or as a text that is moved along."""
    if fed.isdisjoint(operation.inputs):
        return False
    if any(name in operation.name for name in MIXERS):
        return True
    shapes = [tape.layouts[i].shape for i in operation.inputs]
    out = operation.outputs[0] if operation.outputs else None
    made = () if out is None else tape.layouts[out].shape
    if operation.name in PRODUCTS:
        several = len([i for i in operation.inputs if i in fed]) > 1
        return several or _along_text(operation, shapes, fed, length)
    if operation.name in ("sum", "mean", "amax", "max"):
        before = shapes[0]
        return len(before) > 2 and before[:-1].count(length) > made.count(length)
    if operation.name in ("cat", "constant_pad_nd"):
        # A text that is moved along by some places, and filled up.
        return any(
            len(shape) == len(made) and made[axis] >= length > shape[axis] > 1
            for i, shape in zip(operation.inputs, shapes, strict=True)
            for axis in range(len(made) - 1)
            if i in fed
        )
    return False


def _along_text(
    operation: Operation, shapes: Sequence[tuple[int, ...]], fed: set[int], length: int
) -> bool:
    """Whether a product with weights sums over positions."""
    factors = [(i, s) for i, s in zip(operation.inputs, shapes, strict=True) if len(s) > 1][-2:]
    if len(factors) < 2:
        return False
    (left, left_shape), (right, right_shape) = factors
    if left_shape[-1] != length:
        return False
    # Weights as wide as a text is long say nothing: then both of their axes have to be.
    weights = right_shape if left in fed else left_shape
    return weights[-2:] == (length, length) and (left in fed or right in fed)


def _with_constant_state(
    tape: Tape, operations: Sequence[Operation], fed: set[int], length: int
) -> list[Operation]:
    """Products of weights with what neither tokens nor weights reach: a state that stays empty."""
    trained = tape.fed_by_parameters(operations)
    return [
        operation
        for operation in operations
        if (operation.name in PRODUCTS or _is_scan(tape, operation, length))
        and not trained.isdisjoint(operation.inputs)
        and any(number not in fed and number not in trained for number in operation.inputs)
    ]


def _is_scan(tape: Tape, operation: Operation, length: int) -> bool:
    """Whether two tensors of one position are multiplied, entry by entry."""
    shapes = [tape.layouts[i].shape for i in operation.inputs]
    wide = [shape for shape in shapes if len(shape) > 1]
    return operation.name == "mul" and bool(wide) and not any(length in shape for shape in wide)
