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
    *("attention", "conv", "lstm", "gru", "rnn"),
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
    return len(_with_constant_state(tape, operations, fed)) >= MIN_TURNS


def _fed_by_tokens(operations: Sequence[Operation], lookups: frozenset[int]) -> set[int]:
    """Tensors that are made of tokens."""
    fed: set[int] = set()
    for operation in operations:
        if operation.number in lookups or not fed.isdisjoint(operation.inputs):
            fed.update(number for number in operation.outputs if number is not None)
    return fed


def _is_mixer(tape: Tape, operation: Operation, fed: set[int], length: int) -> bool:
    """By its name, as a product of two tensors of tokens, or as a sum along the text."""
    if fed.isdisjoint(operation.inputs):
        return False
    if any(name in operation.name for name in MIXERS):
        return True
    if operation.name in PRODUCTS:
        return len([i for i in operation.inputs if i in fed]) > 1
    if operation.name in ("sum", "mean", "amax", "max"):
        (before, *_), after = operation.inputs, operation.outputs[0]
        shape = tape.layouts[before].shape
        gone = after is not None and length not in tape.layouts[after].shape
        return length in shape[:-1] and len(shape) > 2 and gone
    return False


def _with_constant_state(
    tape: Tape, operations: Sequence[Operation], fed: set[int]
) -> list[Operation]:
    """Products of weights with what neither tokens nor weights reach: a state that stays empty."""
    trained = tape.fed_by_parameters(operations)
    return [
        operation
        for operation in operations
        if operation.name in PRODUCTS
        and not trained.isdisjoint(operation.inputs)
        and any(number not in fed and number not in trained for number in operation.inputs)
    ]
